"""Running sums of sorted predictions under many resamples at once, known exactly at any rank.

Summing blocks of the sorted order is one sparse product for all resamples; only the block that holds an edge
is then looked at sample by sample. This makes equal-mass bins of 1,000 resamples affordable.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_array

from nu_ensembles.metrics.weighting import Values, Weights

BLOCK = 16
"""Sorted positions per block: a running sum at an edge costs one block of work."""


class SortedClasses(NamedTuple):
    """Samples of some classes in ascending order of p(c), class after class, cut into blocks.

    sample: at each position, `[M]`.
    value: p(c) at each position, `[M]`.
    gap: p(c) - 1[y=c] at each position, `[M]`.
    block_start: first position of each block, with M at the end, `[B + 1]`.
    class_block: first block of each class, with B at the end, `[classes + 1]`.
    """

    sample: NDArray[np.int32]
    value: Values
    gap: Values
    block_start: NDArray[np.int64]
    class_block: NDArray[np.int64]


class RunningSums:
    """Sums of gaps over the sorted positions, with sample n counted `weights[n, r]` times.

    Args:
      order: the sorted classes.
      weights: integer counts, `[N, R]`.
    """

    def __init__(self, order: SortedClasses, weights: Weights) -> None:
        shape = (len(order.block_start) - 1, len(weights))
        counted = csr_array((np.ones(len(order.gap)), order.sample, order.block_start), shape=shape) @ weights
        summed = csr_array((order.gap, order.sample, order.block_start), shape=shape) @ weights
        self.order, self.weights = order, weights
        # counts and sums of everything before a block: [B + 1, R]
        self.rank = np.cumsum(np.pad(counted, ((1, 0), (0, 0))), axis=0)
        self.total = np.cumsum(np.pad(summed, ((1, 0), (0, 0))), axis=0)
        self.class_rank = self.rank[order.class_block[:-1]]
        self.n_kept = self.rank[order.class_block[1:]] - self.class_rank

    def ranked_bins(self, n_bins: int) -> Values:
        """Sum over the bins of |sum of gaps|, `[classes, R]`, a bin being n // n_bins consecutive ranks.

        The last bin takes the rest. A sample that was drawn repeatedly may be split between two bins.
        """
        steps = np.arange(1.0, n_bins)[:, None]
        edges = self.class_rank[:, None] + steps * (self.n_kept // n_bins)[:, None]
        sums = np.diff(self._between(self._below_rank(edges)), axis=1)
        return np.abs(sums).sum(axis=1)

    def valued_bins(self, n_bins: int) -> Values:
        """Mean |sum of gaps| over bins whose edges are the values at equally spaced ranks: `[classes, R]`.

        Equal values stay together.
        """
        spaced = np.linspace(0, self.n_kept, n_bins, endpoint=False, axis=1)[:, 1:]
        local = np.clip(np.round(spaced), 0, np.maximum(self.n_kept - 1, 0)[:, None])
        position, below = self._before_rank(self.class_rank[:, None] + local + 1)
        first = _first_of_equals(self.order)[position]
        if not np.array_equal(first, position):
            below = self._before_position(first)
        sums = np.diff(self._between(below), axis=1)
        mean = np.abs(sums).sum(axis=1) / np.maximum(self.n_kept, 1.0)
        return np.where(self.n_kept > 0, mean, 0.0)

    def _between(self, inner: Values) -> Values:
        """Adds the running sums at either end of each class to those at its inner edges `[classes, E, R]`."""
        ends = self.total[self.order.class_block]
        return np.concatenate([ends[:-1, None], inner, ends[1:, None]], axis=1)

    def _block_reaching(self, rank: Values) -> NDArray[np.int64]:
        """For each resample the first block whose end reaches `rank` `[…, R]`."""
        n_blocks, n_resamples = len(self.rank) - 1, self.rank.shape[1]
        # Resamples shifted apart form one sorted array, so a single search serves all of them.
        shift = np.arange(n_resamples) * (self.rank[-1].max() + 2.0)
        keys = (self.rank[1:] + shift).T.ravel()
        found = np.searchsorted(keys, rank + shift, side="left") - np.arange(n_resamples) * n_blocks
        return np.minimum(found, n_blocks - 1)

    def _inside(self, block: NDArray[np.int64]) -> tuple[NDArray[np.int64], Values]:
        """Positions of each block of `[…, R]`, padded to BLOCK, and how often each was drawn: `[…, R, BLOCK]`."""
        offsets = np.arange(BLOCK)
        position = self.order.block_start[block][..., None] + offsets
        real = position < self.order.block_start[block + 1][..., None]
        np.minimum(position, len(self.order.gap) - 1, out=position)
        n_resamples = self.weights.shape[1]
        flat = self.order.sample[position].astype(np.int64) * n_resamples + np.arange(n_resamples)[:, None]
        return position, self.weights.ravel()[flat] * real

    def _below_rank(self, rank: Values) -> Values:
        """Sum of gaps over the lowest `rank` draws, `[…, R]`."""
        block = self._block_reaching(rank)
        position, drawn = self._inside(block)
        resample = np.arange(rank.shape[-1])
        wanted = (rank - self.rank[block, resample])[..., None]
        taken = np.clip(wanted - (np.cumsum(drawn, axis=-1) - drawn), 0.0, drawn)
        return self.total[block, resample] + np.einsum("...i,...i->...", taken, self.order.gap[position])

    def _before_rank(self, rank: Values) -> tuple[NDArray[np.int64], Values]:
        """The position that holds the draw of that rank (1 is the lowest), and the sum of gaps before it."""
        block = self._block_reaching(rank)
        position, drawn = self._inside(block)
        resample = np.arange(rank.shape[-1])
        wanted = (rank - self.rank[block, resample])[..., None]
        passed = np.cumsum(drawn, axis=-1) < wanted
        below = self.total[block, resample] + np.einsum("...i,...i->...", drawn * passed, self.order.gap[position])
        holder = self.order.block_start[block] + passed.sum(axis=-1)
        return np.minimum(holder, len(self.order.gap) - 1), below

    def _before_position(self, position: NDArray[np.int64]) -> Values:
        """Sum of gaps over all draws at lower positions, `[…, R]`."""
        block = np.searchsorted(self.order.block_start, position, side="right") - 1
        inside, drawn = self._inside(block)
        lower = drawn * (inside < position[..., None])
        resample = np.arange(position.shape[-1])
        return self.total[block, resample] + np.einsum("...i,...i->...", lower, self.order.gap[inside])


def _first_of_equals(order: SortedClasses) -> NDArray[np.int64]:
    """For each sorted position the first position of the same class with the same value."""
    changes = np.ones(len(order.value), dtype=bool)
    changes[1:] = order.value[1:] != order.value[:-1]
    changes[order.block_start[order.class_block[:-1]]] = True
    return np.maximum.accumulate(np.where(changes, np.arange(len(changes)), 0))
