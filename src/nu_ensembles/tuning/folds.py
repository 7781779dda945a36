"""Which labelled rows train and which are predicted, for an out-of-fold estimate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nu_ensembles.errors import InputError


class Fold(NamedTuple):
    """Row numbers of the training part and of the held-out part, int `[…]` each."""

    train: np.ndarray
    held_out: np.ndarray


def stratified_folds(codes: np.ndarray, n_folds: int, n_repeats: int, seed: int) -> list[Fold]:
    """Folds in which every class is spread as evenly as its number of rows allows.

    A class needs two rows: then whichever of them is held out, another one trains. A repeat deals the rows anew.

    Args:
      codes: class numbers `[N]`.

    Returns:
      `n_folds * n_repeats` folds, those of a repeat together.
    """
    counts = np.bincount(codes)
    alone = np.flatnonzero(counts == 1)
    if len(alone):
        raise InputError(
            f"{len(alone)} class(es) have a single labelled row (the first is class number {alone[0]}), and choosing "
            "beta or the training length holds rows out: add a row, give a validation set, or set beta and turn "
            "early_stopping off."
        )
    n_folds = min(n_folds, len(codes))
    folds = []
    for repeat in range(n_repeats):
        rng = np.random.default_rng([seed, repeat])
        fold_of = np.empty(len(codes), np.int64)
        dealt = 0
        for label in np.flatnonzero(counts):
            rows = rng.permutation(np.flatnonzero(codes == label))
            # Going on where the last class stopped keeps the folds equally large.
            fold_of[rows] = (dealt + np.arange(len(rows))) % n_folds
            dealt += len(rows)
        folds += [Fold(np.flatnonzero(fold_of != f), np.flatnonzero(fold_of == f)) for f in range(n_folds)]
    return folds
