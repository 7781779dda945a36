"""What tells two sets of rows apart, and what it comes to where it means nothing who belongs to which.

The column that differs most, by its mean or its spread, and two classifiers: a ridge regression on the columns and
their sizes (many that moved a little), and random ferns, small trees whose cuts ignore who belongs where (anything
else). All are linear in who belongs where, so hundreds of permutations cost one product of matrices, and null
distributions are measured on the rows at hand instead of assumed: scores that learnt from each other's rows vary more
than independent ones.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

FOLDS = 5
PERMUTATIONS = 399
# Times the number of rows: directions in which rows hardly vary stay out of the score.
RIDGE = 0.1
FERNS = 100
# A fern's leaf has about so many rows.
ROWS_A_LEAF = 12
FEWEST_CUTS, MOST_CUTS = 2, 6
# Standard deviations beyond which a value counts as if it lay there.
FARTHEST = 5.0
TINY = 1e-9


class Told(NamedTuple):
    """How well a classifier tells the sets apart.

    auroc: mean over folds, `[1 + B]`: as the rows belong, and under B permutations.
    beats: the share of the other set's rows (of its fold) that a row beats, `[N]`.
    """

    auroc: np.ndarray
    beats: np.ndarray


class Difference(NamedTuple):
    """What tells the sets apart.

    p_value: of the hypothesis that nothing does.
    best: the better of the classifiers.
    """

    p_value: float
    best: Told


def told_apart(columns: np.ndarray, rows: np.ndarray, inside: np.ndarray, rng: np.random.Generator) -> Difference:
    """What there is to tell the sets apart by.

    Args:
      columns: scaled, `[N, C]`; rows: the same, or their principal components, `[N, D]`. Their order has nothing to do
        with the sets (ties are broken by it).
      inside: bool `[N]`, which belong to the first set; each set has `FOLDS` rows or more.
    """
    fold = _folds(inside, rng)
    labels = _permuted(inside, fold, rng)
    scores = _of_ridge(_with_sizes(rows), labels, fold), _of_ferns(_near(rows), labels, fold, rng)
    told = [Told(*_ranked(each, labels, fold)) for each in scores]
    above = np.stack([_above_chance(each) for each in (*(each.auroc for each in told), _of_columns(columns, labels))])
    most = above.max(axis=0)
    p_value = float(np.mean(most >= most[0]))
    return Difference(p_value, told[int(above[:2, 0].argmax())])


def _above_chance(statistic: np.ndarray) -> np.ndarray:
    """A statistic `[1 + B]` above its mean under permutations, as shares of what one in twenty exceeds."""
    mean, high = statistic[1:].mean(), np.quantile(statistic[1:], 0.95)
    return (statistic - mean) / max(high - mean, TINY)


def _near(rows: np.ndarray) -> np.ndarray:
    return np.clip(rows, -FARTHEST, FARTHEST).astype(np.float32)


def _with_sizes(rows: np.ndarray) -> np.ndarray:
    """Rows beside their absolute values, which are scaled, `[N, 2 D]`."""
    near = _near(rows)
    sizes = np.abs(near)
    return np.concatenate([near, (sizes - sizes.mean(axis=0)) / np.maximum(sizes.std(axis=0), TINY)], axis=1)


def _of_columns(columns: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """The largest difference of a column's mean, or mean size, between the sets, `[1 + B]`, in its standard errors."""
    differences = labels @ _with_sizes(columns - columns.mean(axis=0))
    differences -= differences[1:].mean(axis=0)
    return np.abs(differences / np.maximum(differences[1:].std(axis=0), TINY)).max(axis=1)


def _folds(inside: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The fold of each row, `[N]`; the rows of each set are spread evenly."""
    fold, dealt = np.empty(len(inside), int), 0
    for side in (True, False):
        rows = rng.permutation(np.flatnonzero(inside == side))
        fold[rows] = (dealt + np.arange(len(rows))) % FOLDS
        dealt += len(rows)
    return fold


def _permuted(inside: np.ndarray, fold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Who belongs to the first set, `[1 + B, N]`: as it is, and permuted within folds."""
    labels = np.tile(inside.astype(np.float32), (1 + PERMUTATIONS, 1))
    for number in range(FOLDS):
        here = np.flatnonzero(fold == number)
        labels[1:, here] = rng.permuted(labels[1:, here], axis=1)
    return labels


def _of_ridge(columns: np.ndarray, labels: np.ndarray, fold: np.ndarray) -> np.ndarray:
    """Scores `[1 + B, N]`, each row's from a regression of the labels on the columns of the other folds."""
    scores = np.empty_like(labels)
    for number in range(FOLDS):
        held_out, x, y = fold == number, columns[fold != number], labels[:, fold != number]
        gram = x.T @ x + RIDGE * len(x) * np.eye(x.shape[1], dtype=x.dtype)
        weights = np.linalg.solve(gram, x.T @ (y - y.mean(axis=1, keepdims=True)).T)
        scores[:, held_out] = (columns[held_out] @ weights).T
    return scores


def _of_ferns(rows: np.ndarray, labels: np.ndarray, fold: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Scores `[1 + B, N]`: the share of the first set among the rows of other folds in the same leaves."""
    n, n_columns = rows.shape
    n_cuts = int(np.clip(np.log2(n / ROWS_A_LEAF), FEWEST_CUTS, MOST_CUTS))
    column, at_row = rng.integers(n_columns, size=(FERNS, n_cuts)), rng.integers(n, size=(FERNS, n_cuts))
    leaf = (rows[:, column] > rows[at_row, column]) @ (1 << np.arange(n_cuts)) + (np.arange(FERNS) << n_cuts)
    where = leaf.ravel(), np.arange(0, n * FERNS + 1, FERNS)
    is_in = sparse.csr_matrix((np.ones(n * FERNS, np.float32), *where), shape=(n, FERNS << n_cuts))
    rows_of_leaf = np.maximum(np.asarray(is_in.sum(axis=0)).ravel(), 1)
    alike = (is_in @ sparse.diags_array(1 / rows_of_leaf).astype(np.float32) @ is_in.T).toarray()
    alike *= fold[:, None] != fold
    alike /= np.maximum(alike.sum(axis=1, keepdims=True), np.finfo(np.float32).tiny)
    return (alike @ labels.T).T


def _ranked(scores: np.ndarray, labels: np.ndarray, fold: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The AUROC of scores `[1 + B, N]` within folds, mean over these, and whom each row beats as the rows belong."""
    auroc, beats = np.zeros(len(labels)), np.empty(labels.shape[1])
    for number in range(FOLDS):
        here = np.flatnonzero(fold == number)
        order = np.argsort(scores[:, here], axis=1)
        ranked = np.take_along_axis(labels[:, here], order, axis=1)
        n_first = ranked[0].sum()
        n_second = len(here) - n_first
        beaten = ranked @ np.arange(1, len(here) + 1) - n_first * (n_first + 1) / 2
        auroc += beaten / (n_first * n_second) / FOLDS
        first = ranked[0] > 0
        below = np.where(first, np.cumsum(~first) / n_second, 1 - np.cumsum(first) / n_first)
        beats[here[order[0]]] = below
    return auroc, beats
