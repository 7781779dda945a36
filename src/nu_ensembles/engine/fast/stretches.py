"""Orders of sets of millions of rows, of which a training sees a small stretch: only that is drawn and kept.

`row_order` sorts the row numbers by one random number each. Where a stretch of that order begins is known up to chance,
so one look at all numbers, some at a time, counts those before it and collects those in it. The bits are those of
`row_order`; memory grows with the stretch, not with the set: of 50 million rows and ten lanes, 40 MB instead of 4 GB,
once in 32,768 steps of 32 rows.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.engine.program import Lanes
from nu_ensembles.engine.step import lane_key
from nu_ensembles.models.masks import threefry2x32

# From so many rows on. Below, a whole order of ten lanes is some 80 MB, and drawn in a second.
MANY_ROWS = 1 << 20
# Positions of an order that are drawn at once.
STRETCH = 1 << 20
DRAWN_AT_ONCE = 1 << 20


class Stretches:
    """What `LastingOrders` gives, for sets of any size: a stretch of each lane's order is kept."""

    def __init__(self) -> None:
        self._kept: dict[tuple[int, int], tuple[int, int, np.ndarray]] = {}  # use, lane -> pass, first position, rows

    def rows(
        self, lanes: Lanes, use: int, number: int, n_rows: Array, length: int, batch_size: int, n_padded: int
    ) -> np.ndarray:
        """The rows of a block, int32 `[R, T, B]`; how many places an order has (n_padded) changes none of them."""
        counts = np.broadcast_to(np.asarray(n_rows, np.int64), (lanes.n_lanes,))
        n, first = length * batch_size, number * length * batch_size
        found = [self._of_lane(lanes, use, lane, int(counts[lane]), first, n) for lane in range(lanes.n_lanes)]
        return np.stack(found).reshape(lanes.n_lanes, length, batch_size)

    def _of_lane(self, lanes: Lanes, use: int, lane: int, n_rows: int, first: int, n: int) -> np.ndarray:
        """The rows at n positions of a lane's endless stream of passes."""
        parts = []
        while n:
            number, position = divmod(first, n_rows)
            here = min(n, n_rows - position)
            parts.append(self._of_pass(lanes, use, lane, n_rows, number, position, here))
            first, n = first + here, n - here
        return np.concatenate(parts)

    def _of_pass(
        self, lanes: Lanes, use: int, lane: int, n_rows: int, number: int, position: int, n: int
    ) -> np.ndarray:
        kept = self._kept.get((use, lane))
        if kept is None or kept[0] != number or not kept[1] <= position <= position + n <= kept[1] + len(kept[2]):
            many = min(max(n, STRETCH), n_rows - position)
            of_pass = np.asarray(jax.random.key_data(jax.random.fold_in(lane_key(lanes.key[lane], use), number)))
            kept = number, position, rows_in_order(of_pass, n_rows, position, many)
            self._kept[use, lane] = kept
        return kept[2][position - kept[1] :][:n]


def rows_in_order(key: np.ndarray, n_rows: int, first: int, n: int) -> np.ndarray:
    """Positions first … first+n-1 of `row_order(key, n_rows, n_rows)`, int32 `[n]`.

    Args:
      key: its two words.
    """
    deviations = 8.0
    while True:
        # The number of draws below a share p of all values has this deviation at most.
        margin = deviations * 0.5 * n_rows**0.5 + 64
        low = max(0, int((first - margin) / n_rows * 2**32))
        high = min(2**32 - 1, int((first + n + margin) / n_rows * 2**32) + 1)
        n_below, draws, rows = _between(key, n_rows, low, high)
        if n_below <= first and first + n <= n_below + len(rows):
            return rows[np.argsort(draws, kind="stable")][first - n_below :][:n]
        deviations *= 8  # chance has it so once in 10^14 times


def _between(key: np.ndarray, n_rows: int, low: int, high: int) -> tuple[int, np.ndarray, np.ndarray]:
    """How many rows draw less than `low`, and the draws and numbers of those from there to `high`, inclusive."""
    n_below, draws, rows = 0, [], []
    for start in range(0, n_rows, DRAWN_AT_ONCE):
        drawn = np.asarray(_draws(key, np.uint32(start)))[: n_rows - start]
        n_below += int(np.count_nonzero(drawn < low))
        inside = np.flatnonzero(drawn - np.uint32(low) <= np.uint32(high - low))
        draws.append(drawn[inside])
        rows.append((inside + start).astype(np.int32))
    return n_below, np.concatenate(draws), np.concatenate(rows)


@jax.jit
def _draws(key: Array, start: Array) -> Array:
    """`jax.random.bits(key, n, uint32)` at `DRAWN_AT_ONCE` places from `start` on."""
    places = start + jnp.arange(DRAWN_AT_ONCE, dtype=jnp.uint32)
    first, second = threefry2x32((key[0], key[1]), (jnp.zeros_like(places), places))
    return first ^ second
