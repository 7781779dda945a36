"""Entropies and mutual information of the members' predicted classes, from integer counts.

Both the plug-in estimate and Grassberger's are H = ln N - (1/N) · sum over cells of phi(n), so a table of phi
turns counts into entropies, for one sample set or for a thousand resamples of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import digamma, xlogy

from nu_ensembles.metrics.weighting import Values, Weights, group_sums

Votes = NDArray[np.int32]


class PairCells(NamedTuple):
    """The cells that occur in the joint tables of one member with each of the members after it.

    cell: of each sample in each of the P tables, `[N, P]`.
    partner: which of the P tables a cell belongs to, `[cells]`, ascending.
    """

    cell: NDArray[np.integer]
    partner: NDArray[np.integer]


def joint_predictions(predictions: Votes, n_classes: int) -> Iterator[PairCells]:
    """Numbers the cells of the pairs (first, later member), for every first member: predictions `[K, N]`."""
    by_sample = predictions.T
    for first in range(len(predictions) - 1):
        later = by_sample[:, first + 1 :]
        n_cells = later.shape[1] * n_classes**2
        tables = np.arange(later.shape[1], dtype=np.int32 if n_cells < 2**31 else np.int64)
        cell = (tables * n_classes + by_sample[:, first, None]) * n_classes + later
        if 4 * n_classes**2 < len(by_sample):
            yield PairCells(cell, np.repeat(tables, n_classes**2))
            continue
        # Of the C² cells of a table at most N occur: renumbering keeps the counts small for many classes.
        occurring, compact = np.unique(cell, return_inverse=True)
        yield PairCells(compact.reshape(cell.shape).astype(np.int32), occurring // n_classes**2)


def entropy_table(n_samples: int, bias_corrected: bool) -> Values:
    """phi(n) for counts n = 0 … N: n ln n, or Grassberger's n G(n)."""
    n = np.arange(n_samples + 1, dtype=np.float64)
    if not bias_corrected:
        return xlogy(n, n)
    table = np.zeros_like(n)
    n = n[1:]
    sign = np.where(n % 2 == 0, 1.0, -1.0)
    table[1:] = n * (digamma(n) + 0.5 * sign * (digamma((n + 1) / 2) - digamma(n / 2)))
    return table


def pair_information(
    predictions: Votes, n_classes: int, weights: Weights, pairs: Iterable[PairCells]
) -> tuple[Values, Values]:
    """Mutual information of every pair of members in bits: plug-in and Grassberger's, each `[K, K, R]`.

    The diagonal holds each member's entropy, which is its information about itself.

    Args:
      predictions: `[K, N]`.
      n_classes: C.
      weights: integer counts that sum to N in each column, `[N, R]`.
      pairs: `joint_predictions`, or a stored copy of it.
    """
    n_members, n_samples = predictions.shape
    tables = [entropy_table(n_samples, bias_corrected) for bias_corrected in (False, True)]

    def entropies(cells: PairCells, n_tables: int) -> Values:
        ones = np.ones(cells.cell.shape)
        counts = group_sums(cells.cell, ones, len(cells.partner), weights).astype(np.int32)
        # the sum over a table's cells is a group sum again, with phi in the place of the weights
        ones = np.ones(len(cells.partner))
        phi = np.stack([group_sums(cells.partner, ones, n_tables, table[counts]) for table in tables])
        return np.log(n_samples) - phi / n_samples

    members = np.arange(n_members, dtype=np.int32)
    own_cells = PairCells(members * n_classes + predictions.T, np.repeat(members, n_classes))
    own = entropies(own_cells, n_members)
    information = np.empty((2, n_members, n_members, weights.shape[1]))
    information[:, members, members] = own
    for first, cells in enumerate(pairs):
        later = slice(first + 1, n_members)
        shared = own[:, first, None] + own[:, later] - entropies(cells, n_members - 1 - first)
        information[:, first, later] = information[:, later, first] = shared
    plug_in, corrected = information / np.log(2.0)
    return plug_in, np.minimum(corrected, np.log2(n_classes))
