"""Which labelled rows train and which are predicted, for an out-of-fold estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nu_ensembles.checks import check_whole
from nu_ensembles.errors import InputError
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

    A class needs two rows: then whichever of them is held out, another one trains. A repeat deals the rows anew.

    Args:
      y: class numbers `[N]`.

    Returns:
      `n_folds * n_repeats` folds, those of a repeat together.
    """
    counts = np.bincount(y)
    alone = np.flatnonzero(counts == 1)
    if len(alone):
        raise InputError(
            f"{len(alone)} class(es) have a single labelled row (the first is class number {alone[0]}), and choosing "
            "beta or the training length holds rows out: add a row, give a validation set, or set beta and turn "
            "early_stopping off."
        )
    n_folds = min(n_folds, len(y))
    folds = []
    for repeat in range(n_repeats):
        rng = np.random.default_rng([seed, repeat])
        fold_of = np.empty(len(y), np.int64)
        dealt = 0
        for label in np.flatnonzero(counts):
            rows = rng.permutation(np.flatnonzero(y == label))
            # Going on where the last class stopped keeps the folds equally large.
            fold_of[rows] = (dealt + np.arange(len(rows))) % n_folds
            dealt += len(rows)
        folds += [Fold(np.flatnonzero(fold_of != f), np.flatnonzero(fold_of == f)) for f in range(n_folds)]
    return folds


def folds_of(cv: Any, y: np.ndarray, seed: int, row_numbers: np.ndarray, n_rows: int) -> list[Fold]:
    """The folds that `cv` means: a number, a scikit-learn splitter or an iterable of splits of X's `n_rows` rows.

    A split holds row numbers or bool masks.

    Args:
      y: class numbers `[N]` of the rows that have a label and weight.
      row_numbers: `[N]`, where these stand in X.
    """
    cv = 5 if cv is None else cv
    if isinstance(cv, int | np.integer):
        n_folds = check_whole(cv, "cv", least=2)
        n_repeats = 2 if len(y) < FEW_LABELS else 1
        return stratified_folds(y, n_folds, n_repeats, seed)
    if hasattr(cv, "split") and not isinstance(cv, str):
        return [Fold(*split) for split in cv.split(y, y)]
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
            f"cv is {cv!r}; give a number of folds, a scikit-learn splitter or an iterable of (train, test) splits."
        ) from None
    if not folds:
        raise InputError("cv yields no split; give a number of folds, a splitter or an iterable of splits.")
    if not all(len(part) for fold in folds for part in fold):
        raise InputError("A split of cv has no labelled row to train on or none to hold out; give both parts some.")
    return folds


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


def first_deal(folds: Sequence[Fold]) -> list[Fold]:
    """Those of the folds that hold out a row which none before them did: one repeat, where there are several."""
    kept, held_out = [], set()
    for fold in folds:
        if not held_out.issuperset(fold.held_out.tolist()):
            kept.append(fold)
            held_out.update(fold.held_out.tolist())
    return kept
