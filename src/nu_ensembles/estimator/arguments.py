"""What scikit-learn users pass in several ways: unlabelled rows inside X, data frames, folds."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils import check_array, compute_sample_weight

from nu_ensembles.checks import check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.problem import Problem, check_rows, in_order
from nu_ensembles.tuning import Fold, stratified_folds

# With fewer labels than this the folds are dealt twice: one deal would decide too much.
FEW_LABELS = 100


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


def folds_of(cv: Any, problem: Problem, seed: int, n_rows: int) -> list[Fold]:
    """The folds that `cv` means: a number, a scikit-learn splitter or an iterable of splits of X's `n_rows` rows.

    A split holds row numbers or bool masks.
    """
    cv = 5 if cv is None else cv
    if isinstance(cv, int | np.integer):
        n_folds = check_whole(cv, "cv", least=2)
        n_repeats = 2 if len(problem.y) < FEW_LABELS else 1
        return stratified_folds(problem.y, n_folds, n_repeats, seed)
    if hasattr(cv, "split") and not isinstance(cv, str):
        return [Fold(*split) for split in cv.split(problem.y, problem.y)]
    # Given splits number the rows of X; rows without label or weight are not among ours.
    position = {row: number for number, row in enumerate(problem.row_numbers.tolist())}

    def ours(rows: Any) -> np.ndarray:
        rows = np.asarray(rows)
        if rows.dtype == bool and rows.shape == (n_rows,):
            rows = np.flatnonzero(rows)
        if rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n_rows):
            raise InputError(f"A split of cv holds row numbers from 0 to {n_rows - 1}, or a bool for each row of X.")
        return np.array([position[row] for row in rows.tolist() if row in position], int)

    try:
        folds = [Fold(ours(train), ours(held_out)) for train, held_out in cv]
    except (TypeError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        raise InputError(
            f"cv is {cv!r}; give a number of folds, a scikit-learn splitter or an iterable of (train, test) splits."
        ) from None
    if not folds:
        raise InputError("cv yields no split; give a number of folds, a splitter or an iterable of splits.")
    if not all(len(part) for fold in folds for part in fold):
        raise InputError("A split of cv has no labelled row to train on or none to hold out; give both parts some.")
    return folds
