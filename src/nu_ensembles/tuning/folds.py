"""Which labelled rows train and which are predicted, for an out-of-fold estimate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from nu_ensembles.errors import InputError
from nu_ensembles.methods import TrainingRows
from nu_ensembles.training import TrainingJob


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
