"""Which rows train and which are held out where a blend learns its weights."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv

from nu_ensembles.checks import check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.tuning import Fold, stratified_folds


def folds_for_weights(
    cv: Any, X: Any, y: NDArray[Any], counts: NDArray[np.int64], codes: NDArray[np.integer], seed: int
) -> list[Fold]:
    """Folds of the rows of X that count.

    Args:
      cv: a number, a scikit-learn splitter or an iterable of splits.
      counts: the rows of weight above zero; codes: their class numbers.
    """
    if cv is None or isinstance(cv, int | np.integer):
        return _dealt(codes, counts, check_whole(5 if cv is None else cv, "cv", least=2), seed)
    try:
        splitter: Any = check_cv(cv, y, classifier=True)
        splits = list(splitter.split(X, y))
    except (TypeError, ValueError) as error:
        raise InputError(f"cv cannot split these rows ({error}); give a number of folds.") from None
    return [Fold(_among(train, counts, len(y)), _among(held_out, counts, len(y))) for train, held_out in splits]


def _dealt(codes: NDArray[np.integer], counts: NDArray[np.int64], n_folds: int, seed: int) -> list[Fold]:
    """Stratified folds; a class with a single row is never held out, since nothing else would tell of it."""
    alone = np.bincount(codes)[codes] == 1
    several, single = counts[~alone], counts[alone]
    if not len(several):
        return []
    _, renumbered = np.unique(codes[~alone], return_inverse=True)
    folds = stratified_folds(renumbered, n_folds, 1, seed)
    return [Fold(np.concatenate([several[fold.train], single]), several[fold.held_out]) for fold in folds]


def _among(rows: Any, counts: NDArray[np.int64], n_rows: int) -> NDArray[np.int64]:
    """Those of the rows, numbers or a mask, that count."""
    rows = np.asarray(rows)
    if rows.dtype == bool and rows.shape == (n_rows,):
        rows = np.flatnonzero(rows)
    if rows.size and (rows.dtype.kind not in "iu" or rows.min() < 0 or rows.max() >= n_rows):
        raise InputError(f"A split of cv holds row numbers from 0 to {n_rows - 1}, or a bool for each row of X.")
    kept = np.intersect1d(rows, counts).astype(np.int64)
    if not len(kept):
        raise InputError("A split of cv has no row to train on or none to hold out; give both parts some.")
    return kept
