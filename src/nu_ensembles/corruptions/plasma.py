"""Plasma clouds by diamond-square subdivision: the density of fog.

A periodic map is refined from one point to all: the centre of every square, then the middle of every edge, becomes the
mean of its four neighbours plus a random wobble that fades from level to level.
"""

from __future__ import annotations

import numpy as np

from nu_ensembles.corruptions.levels import Floats
from nu_ensembles.corruptions.sources import Source

_FIRST_WOBBLE = 100.0


def map_size(length: int) -> int:
    """The smallest power of two that covers the length."""
    return 1 << max(length - 1, 1).bit_length()


def draw_plasma(source: Source, length: int, decay: float) -> Floats:
    """The wobbles of one map in the order of the subdivision, flat: three for each cell of each level."""
    size, wobble, cells = map_size(length), _FIRST_WOBBLE, 1
    drawn = []
    while cells < size:
        # The published map scales by the wobble twice.
        drawn += [wobble * source.uniform(-wobble, wobble, cells * cells) for _ in range(3)]
        cells, wobble = 2 * cells, wobble / decay
    return np.concatenate(drawn)


def plasma(wobbles: Floats, length: int) -> Floats:
    """Maps `[N, size, size]` scaled to 0 … 1, from the wobbles `[N, size² - 1]`."""
    size, n_maps, used = map_size(length), len(wobbles), 0
    maps = np.zeros((n_maps, size, size))
    step = size
    while step >= 2:
        half, cells = step // 2, size // step
        centre, edge = slice(half, None, step), slice(0, None, step)

        def set_mean(rows: slice, columns: slice, four: Floats, cells: int = cells) -> None:
            nonlocal used
            wobble = wobbles[:, used : used + cells * cells].reshape(n_maps, cells, cells)
            maps[:, rows, columns] = four / 4 + wobble
            used += cells * cells

        corners = maps[:, edge, edge]
        pairs = corners + np.roll(corners, -1, axis=1)
        set_mean(centre, centre, pairs + np.roll(pairs, -1, axis=2))
        corners, centres = maps[:, edge, edge], maps[:, centre, centre]
        set_mean(edge, centre, centres + np.roll(centres, 1, axis=1) + (corners + np.roll(corners, -1, axis=2)))
        set_mean(centre, edge, centres + np.roll(centres, 1, axis=2) + (corners + np.roll(corners, -1, axis=1)))
        step = half
    maps -= maps.min(axis=(1, 2), keepdims=True)
    return maps / maps.max(axis=(1, 2), keepdims=True)
