"""What scikit-learn users pass in several ways: unlabelled rows inside X, data frames, folds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from sklearn.utils import check_array, check_consistent_length, check_random_state, compute_sample_weight
from sklearn.utils.validation import _check_sample_weight, column_or_1d, validate_data

from nu_ensembles.checks import check_array as as_array
from nu_ensembles.checks import check_flag, refuse_foreign, shown
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.errors import InputError
from nu_ensembles.problem import (
    Problem,
    Unlabeled,
    check_rows,
    check_targets,
    labelled_rows,
    note_gaps,
    only_labelled,
    opened,
    prepare,
)
from nu_ensembles.rows import LazyRows
from nu_ensembles.tables import RawTable, SparseRows, rows_of

MAY_BE_ARRAYS = ("betas", "cv")


def problem_of(estimator: Any, X: Any, y: Any, X_unlabeled: Any, sample_weight: Any) -> Problem:
    """What `fit` was given, with the estimator's options: unlabelled rows found, classes weighted, inputs scaled."""
    check_options(estimator)
    U = X_unlabeled.rows if isinstance(X_unlabeled, Unlabeled) else X_unlabeled
    U = opened(U, "X_unlabeled", np.shape(X)[1:] if hasattr(X, "shape") else None)
    if y is None:
        raise InputError("This classifier requires y to be passed, but the target y is None.")
    X, y = rows_and_labels(estimator, X, y, rows_of(X, "X"))
    U = rows_beside(U, "X_unlabeled")
    standardize = wants_standardisation(estimator.standardize, X)
    if sample_weight is not None:
        sample_weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
    labelled = which_labelled(y, estimator.unlabeled_label)
    note_gaps(which_labelled(y, None))
    rest, X, y = X[~labelled], X[labelled], only_labelled(y, labelled)
    sample_weight = None if sample_weight is None else sample_weight[labelled]
    check_targets(y)
    if estimator.class_weight is not None:
        sample_weight = weights_with_classes(estimator.class_weight, y, sample_weight)
    return prepare(
        X,
        y,
        U,
        sample_weight,
        standardize=standardize,
        row_numbers=np.flatnonzero(labelled),
        also_unlabeled=rest,
        column_types=estimator.column_types,
    )


def check_options(estimator: Any) -> None:
    """Refuses what no option can be: an array neither equals a name nor differs."""
    for name, value in estimator.get_params(deep=False).items():
        if hasattr(value, "__array__") and getattr(value, "ndim", 0) and name not in MAY_BE_ARRAYS:
            raise InputError(f"{name} must not be an array: {shown(value)}.")
        options = isinstance(value, Mapping) and all(isinstance(each, str) for each in value)
        if name in ("model_options", "method_options") and value is not None and not options:
            raise InputError(f"{name} must be a dict of options by name, not {shown(value)}.")


def seed_of(random_state: Any) -> int:
    """A seed from what scikit-learn takes for one."""
    try:
        return int(check_random_state(random_state).randint(np.iinfo(np.int32).max))
    except (TypeError, ValueError) as error:
        raise InputError(
            f"random_state must be a whole number, a RandomState or None, not {shown(random_state)}: {error}."
        ) from None


def rows_and_labels(estimator: Any, given: Any, y: Any, X: Any) -> tuple[Any, np.ndarray]:
    """Rows and labels `[n]` to fit on, as scikit-learn checks them; the estimator keeps the names of the columns.

    Args:
      given: what the user calls X.
      X: the same as a table, a sparse matrix or an array.
    """
    refuse_foreign(y, "y")
    y = column_or_1d(y, warn=True)
    if isinstance(X, RawTable):
        # Names of several types are refused, and those that are not text left aside, as everywhere in scikit-learn.
        validate_data(estimator, given if hasattr(given, "shape") else X, skip_check_array=True)  # pyright: ignore
        if X.named:
            estimator.feature_names_in_ = np.array(X.names, object)
    elif isinstance(X, SparseRows):
        validate_data(estimator, X.matrix, accept_sparse=True)
    else:
        refuse_foreign(X, "X")
        try:
            X = validate_data(estimator, X, allow_nd=True, ensure_all_finite=False, dtype="numeric")
        except ValueError as error:
            if "could not convert string" not in str(error):
                raise
            raise InputError(
                f"X cannot be taken as numbers ({error}); give text and dates in a data frame, whose columns have a "
                "type each."
            ) from None
    check_consistent_length(X, y)
    return X, y


def rows_like_fitted(estimator: Any, X: Any, ensemble: Ensemble) -> Any:
    """Rows to predict: a table, whose columns the ensemble finds by name, or an array of as many columns."""
    X = rows_of(opened(X, "X", ensemble.row_shape), "X")
    if isinstance(X, RawTable | LazyRows):
        return X
    if isinstance(X, SparseRows):
        validate_data(estimator, X.matrix, accept_sparse=True, reset=False)
        return X
    refuse_foreign(X, "X")
    X = validate_data(estimator, X, reset=False, allow_nd=True, ensure_all_finite=False, dtype="numeric")
    return check_rows(X, "X", ensemble.input_shape, gaps=ensemble.encoding is not None)


def rows_beside(other: Any, name: str) -> Any:
    """Rows beside X: a table, or an array, taken as scikit-learn takes X (objects that are numbers become numbers).

    Raises:
      InputError: an array of something else than numbers.
    """
    if other is None:
        return None
    other = rows_of(other, name)
    if isinstance(other, RawTable | SparseRows | LazyRows):
        return other
    if not hasattr(other, "shape"):
        other = as_array(other, name)
    if np.ndim(other) == 0:
        return check_rows(other, name)  # which says what is wrong
    # Shape and values are looked at later, together with those of X.
    try:
        return check_array(
            other,
            input_name=name,
            allow_nd=True,
            ensure_2d=False,
            ensure_all_finite=False,
            ensure_min_samples=0,
            ensure_min_features=0,
        )
    except ValueError as error:
        raise InputError(
            f"{name} cannot be taken as numbers ({error}); give text and dates in a data frame, whose columns have a "
            "type each."
        ) from None


def weights_with_classes(class_weight: Any, y: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray:
    """The rows' weights times those of their classes; rows without weight do not make a class frequent."""
    weight = np.ones(len(y)) if sample_weight is None else sample_weight.copy()
    counted = weight > 0
    if counted.any():
        try:
            weight[counted] *= compute_sample_weight(class_weight, y[counted])
        except (TypeError, ValueError, LookupError) as error:
            raise InputError(
                f"class_weight must be a dict of classes, 'balanced' or None, not {shown(class_weight)} ({error})."
            ) from None
    return weight


def which_labelled(y: np.ndarray, unlabeled_label: Any) -> np.ndarray:
    """The rows that have a label, bool `[n]`: neither the one that marks unlabelled rows nor NaN, None or a blank."""
    labelled = labelled_rows(y)
    if unlabeled_label is None:
        return labelled
    if isinstance(unlabeled_label, list | tuple | dict | set | frozenset | range):
        raise InputError(f"unlabeled_label must be one label, not {shown(unlabeled_label)}.")
    marked = y == unlabeled_label
    if not isinstance(marked, np.ndarray):  # labels of a type that cannot equal it
        return labelled
    if marked.all():
        raise InputError(f"Every row is marked unlabelled (y == {shown(unlabeled_label)}); label some of them.")
    return labelled & ~marked.astype(bool)


def wants_standardisation(standardize: bool | str, X: Any) -> bool:
    """Whether the inputs are to be standardised; "auto" means tables of anything but bytes."""
    if not isinstance(standardize, str):
        return check_flag(standardize, "standardize, unless it is 'auto',")
    if standardize != "auto":
        raise InputError(f"standardize must be True, False or 'auto', not {shown(standardize)}.")
    return isinstance(X, RawTable) or (X.ndim == 2 and X.dtype != np.uint8)
