"""What scikit-learn users pass in several ways: unlabelled rows inside X, data frames, folds."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array, compute_sample_weight

from nu_ensembles.errors import InputError
from nu_ensembles.problem import check_rows, in_order


def numbers_of(other: Any, name: str, columns: tuple[str, ...] | None) -> np.ndarray | None:
    """Rows beside X as an array, taken as scikit-learn takes X: data frames of several types become one of numbers.

    Args:
      columns: the names of X's columns, to which a data frame's are matched.

    Raises:
      InputError: not numbers; or a data frame that lacks a column of X.
    """
    if other is None:
        return None
    other = in_order(other, columns, name)
    if hasattr(other, "toarray") or np.ndim(other) == 0:
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
        raise InputError(f"{name} cannot be taken as numbers ({error}); encode text and dates first.") from None


def weights_with_classes(class_weight: Any, y: np.ndarray, sample_weight: np.ndarray | None) -> np.ndarray | None:
    """The rows' weights times those of their classes; rows without weight do not make a class frequent."""
    if class_weight is None:
        return sample_weight
    weight = np.ones(len(y)) if sample_weight is None else sample_weight.copy()
    counted = weight > 0
    if counted.any():
        weight[counted] *= compute_sample_weight(class_weight, y[counted])
    return weight


def separate_unlabeled(
    X: np.ndarray, y: np.ndarray, U: np.ndarray | None, unlabeled_label: Any
) -> tuple[np.ndarray, np.ndarray | None]:
    """The numbers of the labelled rows of X, and the unlabelled rows: U and those of X that carry the label."""
    if unlabeled_label is None:
        return np.arange(len(X)), U
    inside = y == unlabeled_label
    if not isinstance(inside, np.ndarray):  # labels of a type that cannot equal it
        inside = np.zeros(len(y), bool)
    if inside.all():
        raise InputError(f"Every row is marked unlabelled (y == {unlabeled_label!r}); label some of them.")
    if U is not None and len(U):
        return np.flatnonzero(~inside), np.concatenate([check_rows(U, "X_unlabeled", X.shape[1:]), X[inside]])
    return np.flatnonzero(~inside), X[inside]


def wants_standardisation(standardize: bool | str, X: np.ndarray) -> bool:
    """Whether the inputs are to be standardised; "auto" means tables of anything but bytes."""
    if not isinstance(standardize, str):
        return bool(standardize)
    if standardize != "auto":
        raise InputError(f"standardize must be True, False or 'auto', not {standardize!r}.")
    return X.ndim == 2 and X.dtype != np.uint8
