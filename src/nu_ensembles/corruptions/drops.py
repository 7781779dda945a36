"""The relief of water drops: edges, distance to them, equalisation and emboss, on maps `[N, H, W]` of 8 bits.

Written from the definitions (Canny, 1986; Borgefors, 1986), with the constants of the program behind the published
arrays: thresholds 50 and 150, steps of 1, 1.4 and 2.1969, distances cut at 20.
"""

from __future__ import annotations

import numpy as np
from scipy import ndimage

from nu_ensembles.corruptions.filters import correlate
from nu_ensembles.corruptions.levels import Floats

Maps = np.ndarray

_LOW, _HIGH = 50, 150
_FARTHEST = 20.0
# Steps of the chamfer distance in 1/65536 pixel: straight, diagonal, and a knight's move.
_STRAIGHT, _DIAGONAL, _KNIGHT = 65536, 91750, 143976
_TAN_22 = 13573  # tan(22.5 degrees) in 1/32768
_EMBOSS = np.array([[-2, -1, 0], [-1, 1, 1], [0, 1, 2]])


def relief(drops: Maps) -> Floats:
    """How much light each pixel of the drops sends to the eye: float32 `[N, H, W]`, 0 … 255."""
    distance = np.minimum(chamfer_distance(edges(drops)), np.float32(_FARTHEST))
    smoothed = _box_mean(distance).astype(np.uint8)
    embossed = np.clip(_correlate(equalise(smoothed).astype(np.int64), _EMBOSS), 0, 255)
    return np.rint(_box_mean(embossed.astype(np.float64))).astype(np.float32)


def edges(maps: Maps) -> Maps:
    """Canny's edge pixels, bool `[N, H, W]`, from 3×3 Sobel gradients and their L1 norm."""
    padded = np.pad(maps.astype(np.int64), ((0, 0), (1, 1), (1, 1)), mode="edge")
    rows = padded[:, :-2] + 2 * padded[:, 1:-1] + padded[:, 2:]
    columns = padded[:, :, :-2] + 2 * padded[:, :, 1:-1] + padded[:, :, 2:]
    dx, dy = rows[:, :, 2:] - rows[:, :, :-2], columns[:, 2:] - columns[:, :-2]
    size = np.abs(dx) + np.abs(dy)
    candidates = _is_ridge(size, dx, dy) & (size > _LOW)
    # Weak candidates count where they touch a strong one; the structure keeps the images of a batch apart.
    structure = np.zeros((3, 3, 3), bool)
    structure[1] = True
    groups = np.zeros(candidates.shape, np.int32)
    ndimage.label(candidates, structure, output=groups)
    strong = np.zeros(int(groups.max()) + 1, bool)
    strong[groups[candidates & (size > _HIGH)]] = True
    return strong[groups] & candidates


def _is_ridge(size: Maps, dx: Maps, dy: Maps) -> Maps:
    """Where the gradient is larger than that of its neighbours before and behind, in one of four directions."""
    padded = np.pad(size, ((0, 0), (1, 1), (1, 1)))

    def neighbour(row: int, column: int) -> Maps:
        return padded[:, 1 + row : 1 + row + size.shape[1], 1 + column : 1 + column + size.shape[2]]

    flat = np.abs(dx) * _TAN_22
    steep = flat + (np.abs(dx) << 16)
    slope = np.abs(dy) << 15
    falling = (dx ^ dy) < 0
    horizontal = (size > neighbour(0, -1)) & (size >= neighbour(0, 1))
    vertical = (size > neighbour(-1, 0)) & (size >= neighbour(1, 0))
    rising_diagonal = (size > neighbour(-1, -1)) & (size > neighbour(1, 1))
    falling_diagonal = (size > neighbour(-1, 1)) & (size > neighbour(1, -1))
    diagonal = np.where(falling, falling_diagonal, rising_diagonal)
    return np.where(slope < flat, horizontal, np.where(slope > steep, vertical, diagonal))


def chamfer_distance(targets: Maps) -> Floats:
    """Distance of every pixel to the nearest target of its map, in steps of the 5×5 chamfer: float32 `[N, H, W]`."""
    height, width = targets.shape[1:]
    enough = int((_FARTHEST + 8) * _STRAIGHT)
    distance = np.full((len(targets), height + 4, width + 4), enough, np.int64)
    inner = distance[:, 2:-2, 2:-2]
    inner[targets] = 0
    moves = {(0, 1): _STRAIGHT, (1, 0): _STRAIGHT, (1, 1): _DIAGONAL, (1, 2): _KNIGHT, (2, 1): _KNIGHT}
    steps = {(sy * y, sx * x): cost for (y, x), cost in moves.items() for sy in (1, -1) for sx in (1, -1)}
    while True:
        before = inner.copy()
        for (y, x), cost in steps.items():
            np.minimum(inner, distance[:, 2 + y : 2 + y + height, 2 + x : 2 + x + width] + cost, out=inner)
        if np.array_equal(before, inner):
            return inner.astype(np.float32) / np.float32(_STRAIGHT)


def equalise(maps: Maps) -> Maps:
    """Spreads the levels of each map so that their cumulative histogram is straight."""
    n_pixels = maps[0].size
    equal = np.empty_like(maps)
    for index, levels in enumerate(maps):
        counts = np.bincount(levels.ravel(), minlength=256)
        lowest = int(levels.min())
        if counts[lowest] == n_pixels:
            equal[index] = levels
            continue
        scale = np.float32(255) / np.float32(n_pixels - counts[lowest])
        counts[lowest] = 0
        table = np.rint(np.cumsum(counts).astype(np.float32) * scale)
        equal[index] = np.clip(table, 0, 255).astype(np.uint8)[levels]
    return equal


def _box_mean(maps: Floats) -> Floats:
    return _correlate(maps, np.ones((3, 3), maps.dtype)) / maps.dtype.type(9)


def _correlate(maps: Maps, kernel: Maps) -> Maps:
    """3×3 correlation; the border reflects without repeating the edge."""
    return correlate(maps[..., None], kernel)[..., 0]
