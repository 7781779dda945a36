"""Which labelled rows train and which are predicted, for an out-of-fold estimate."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nu_ensembles.checks import check_whole, shown
from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.methods import TrainingRows
from nu_ensembles.training import TrainingJob

# With fewer labels than this the folds are dealt twice: one deal would decide too much.
FEW_LABELS = 100


class Fold(NamedTuple):
    """Row numbers of the training part and of the held-out part, int `[…]` each."""

    train: np.ndarray
    held_out: np.ndarray


def stratified_folds(y: np.ndarray, n_folds: int, n_repeats: int, seed: int) -> list[Fold]:
    """Folds in which every class is spread as evenly as its number of rows allows.

    Of a class with two rows one trains whichever is held out. The row of a class that has no other trains in every
    fold: held out, it would be predicted by networks that know nothing of its class. A repeat deals the rows anew.

    Args:
      y: class numbers `[N]`.

    Returns:
      `n_folds * n_repeats` folds, those of a repeat together.
    """
    counts = np.bincount(y)
    if counts.max() == 1:
        raise InputError(
            "Every class has a single labelled row, so none can be held out to choose beta or the training length by: "
            "add rows, give a validation set, or set beta and turn early_stopping off."
        )
    n_folds = min(n_folds, int(counts[counts > 1].sum()))
    folds = []
    for repeat in range(n_repeats):
        rng = np.random.default_rng([seed, repeat])
        fold_of = np.full(len(y), -1)
        dealt = 0
        for label in np.flatnonzero(counts > 1):
            rows = rng.permutation(np.flatnonzero(y == label))
            # Going on where the last class stopped keeps the folds equally large.
            fold_of[rows] = (dealt + np.arange(len(rows))) % n_folds
            dealt += len(rows)
        folds += [Fold(np.flatnonzero(fold_of != f), np.flatnonzero(fold_of == f)) for f in range(n_folds)]
    return folds


def folds_of(
    cv: Any, y: np.ndarray, seed: int, row_numbers: np.ndarray, n_rows: int, classes: Sequence[Any] | np.ndarray
) -> list[Fold]:
    """The folds that `cv` means: a number, a scikit-learn splitter or an iterable of splits of X's `n_rows` rows.

    A split holds row numbers or bool masks. The row of a class that has no other is moved to the rows that train.

    Args:
      y: class numbers `[N]` of the rows that have a label and weight.
      row_numbers: `[N]`, where these stand in X.
      classes: what the class numbers stand for.
    """
    alone = np.bincount(y, minlength=len(classes))[y] == 1
    cv = 5 if cv is None else cv
    if isinstance(cv, int | np.integer):
        n_folds = check_whole(cv, "cv", least=2)
        n_repeats = 2 if len(y) < FEW_LABELS else 1
        folds = stratified_folds(y, n_folds, n_repeats, seed)
        if len(folds) < n_folds * n_repeats:
            note = f"{int((~alone).sum())} labelled rows make no {n_folds} folds: {len(folds) // n_repeats} are used."
            warnings.warn(note, DataWarning, stacklevel=3)
    else:
        folds = [_with_all_classes(fold, y, alone, classes) for fold in _given(cv, y, row_numbers, n_rows)]
    _note_single_rows(np.asarray(classes)[y[alone]])
    return folds


def _given(cv: Any, y: np.ndarray, row_numbers: np.ndarray, n_rows: int) -> list[Fold]:
    """The splits of a splitter or of an iterable, as they are given."""
    if hasattr(cv, "split") and not isinstance(cv, str):
        try:
            return [Fold(*split) for split in cv.split(y, y)]
        except (TypeError, ValueError) as error:
            raise InputError(f"cv cannot split the {len(y)} labelled rows ({error}); give a number of folds.") from None
    # Given splits number the rows of X; rows without label or weight are not among ours.
    position = {row: number for number, row in enumerate(row_numbers.tolist())}

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
            f"cv is {shown(cv)}; give a number of folds, a scikit-learn splitter or a list of (train, test) splits."
        ) from None
    if not folds:
        raise InputError("cv yields no split; give a number of folds, a splitter or an iterable of splits.")
    return folds


def _with_all_classes(fold: Fold, y: np.ndarray, alone: np.ndarray, classes: Sequence[Any] | np.ndarray) -> Fold:
    """A given fold, with single rows among those that train; refused if it then holds all rows of a class out."""
    train, held_out = (np.asarray(rows, np.int64) for rows in fold)
    single = held_out[alone[held_out]]
    train, held_out = np.concatenate([train, single]), held_out[~alone[held_out]]
    if not len(train) or not len(held_out):
        raise InputError("A split of cv has no labelled row to train on or none to hold out; give both parts some.")
    unseen = np.setdiff1d(y[held_out], y[train])
    if len(unseen):
        raise InputError(
            f"A split of cv holds out rows of the class {np.asarray(classes)[unseen[0]]!s} and none of it trains; use "
            "a stratified splitter, or a number of folds."
        )
    return Fold(train, held_out)


def _note_single_rows(classes: np.ndarray) -> None:
    if not len(classes):
        return
    named = ", ".join(map(str, classes[:5].tolist())) + (f" and {len(classes) - 5} more" if len(classes) > 5 else "")
    note = (
        f"A single labelled row in class {named}: it trains in every fold, so nothing is known of how it is predicted."
    )
    warnings.warn(note, DataWarning, stacklevel=4)


class HeldOut(NamedTuple):
    """Labelled rows, and the folds that hold some of them out.

    rows: those that train and those that are held out, and the unlabelled ones.
    """

    rows: TrainingRows
    folds: Sequence[Fold]


def held_out_of(job: TrainingJob, folds: Sequence[Fold]) -> HeldOut:
    """The job's rows and folds; if it has validation rows, these follow the labelled ones and are the one fold."""
    if job.validation is None:
        return HeldOut(job.rows, folds)
    rows, other = job.rows, job.validation
    joined = rows._replace(
        x=np.concatenate([rows.x, other.x]),
        y=np.concatenate([rows.y, other.y.astype(rows.y.dtype)]),
        weight=np.concatenate([rows.weight, other.weight.astype(rows.weight.dtype)]),
    )
    n_labelled, n_all = len(rows.x), len(joined.x)
    return HeldOut(joined, [Fold(np.arange(n_labelled), np.arange(n_labelled, n_all))])


def more_rows(job: TrainingJob, folds: Sequence[Fold]) -> float:
    """How many times as many rows the job has as those that train in a fold; 1 with a validation set."""
    if job.validation is not None:
        return 1.0
    return len(job.rows.x) * len(folds) / sum(len(fold.train) for fold in folds)


def first_deal(folds: Sequence[Fold]) -> list[Fold]:
    """Those of the folds that hold out a row which none before them did: one repeat, where there are several."""
    kept, held_out = [], set()
    for fold in folds:
        if not held_out.issuperset(fold.held_out.tolist()):
            kept.append(fold)
            held_out.update(fold.held_out.tolist())
    return kept
