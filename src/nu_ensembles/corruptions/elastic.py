"""Elastic transform: a random affine map, then a smooth random displacement of every pixel.

Both steps repeat the rounding and the borders of the programs behind the published arrays, which decide most levels.
"""

from __future__ import annotations

import numpy as np

from nu_ensembles.corruptions.filters import mirror, smooth
from nu_ensembles.corruptions.levels import Floats, Images, to_levels, to_unit
from nu_ensembles.corruptions.sources import Source


def draw_elastic(
    source: Source, image: Images, strength: float, smoothness: float, affine: float
) -> tuple[Floats, Floats, Floats]:
    """Shifts of three points in pixels, and uniform deviates for the horizontal and the vertical field."""
    size = image.shape[:2]
    return source.uniform(-affine, affine, (3, 2)), source.uniform(-1, 1, size), source.uniform(-1, 1, size)


def elastic_transform(
    images: Images,
    shifts: Floats,
    right: Floats,
    down: Floats,
    strength: float,
    smoothness: float,
    affine: float,
) -> Images:
    """Moves three points of the image and with them all others, then pulls every pixel a little way."""
    height, width = images.shape[1:3]
    warped = _warp(to_unit(images, np.float32), _source_map(shifts, height, width))
    if strength == 0:
        return to_levels(warped)
    dx, dy = (
        (strength * smooth(field, smoothness, mode="reflect", truncate=3)).astype(np.float32) for field in (right, down)
    )
    y, x = np.mgrid[:height, :width]
    return to_levels(_sample(warped, y + dy.astype(np.float64), x + dx.astype(np.float64)))


def _source_map(shifts: Floats, height: int, width: int) -> Floats:
    """For each image the `[2, 3]` matrix that takes an output pixel (x, y, 1) to where it comes from."""
    x, y, reach = width // 2, height // 2, max(min(height, width) // 3, 1)
    corners = np.array([(x + reach, y + reach), (x + reach, y - reach), (x - reach, y - reach)], np.float32)
    moved = corners + shifts.astype(np.float32)
    points = np.concatenate([moved.astype(np.float64), np.ones((len(shifts), 3, 1))], axis=2)
    return np.swapaxes(np.linalg.solve(points, np.broadcast_to(corners.astype(np.float64), moved.shape)), 1, 2)


def _warp(unit: Floats, source_map: Floats) -> Floats:
    """Linear interpolation at positions rounded to 1/32 of a pixel, borders mirrored."""
    height, width = unit.shape[1:3]
    columns = np.rint(1024 * source_map[:, :, 0, None] * np.arange(width)).astype(np.int64)
    rows = np.rint(1024 * (source_map[:, :, 1, None] * np.arange(height) + source_map[:, :, 2, None])).astype(np.int64)
    # [N, 2, H, W] in units of 1/32 pixel; the 16 rounds to nearest.
    position = (rows[..., :, None] + 16 + columns[..., None, :]) >> 5
    whole, part = position >> 5, (position & 31).astype(np.float32) / np.float32(32)
    return _blend(unit, whole[:, 1], whole[:, 0], part[:, 1], part[:, 0])


def _sample(unit: Floats, y: Floats, x: Floats) -> Floats:
    """Linear interpolation at `[N, H, W]` positions, with SciPy 1.0's treatment of the border."""
    y, x = _reflected(y, unit.shape[1]), _reflected(x, unit.shape[2])
    top, left = np.floor(y), np.floor(x)
    exact = unit.astype(np.float64)
    return _blend(exact, top.astype(np.intp), left.astype(np.intp), y - top, x - left).astype(np.float32)


def _reflected(position: Floats, length: int) -> Floats:
    """Positions brought back from beyond the border as SciPy did before 1.6.

    One that lies t pixels before the first one goes to t - 1, which is still outside, and is then interpolated between
    mirrored pixels. Later versions repeat the edge; the published arrays have this.
    """
    period = 2 * length
    before = np.where(position < -period, position + period * np.trunc(-position / period), position)
    before = np.where(before < -length, before + period, -before - 1)
    after = position - period * np.trunc(position / period)
    after = np.where(after >= length, period - after - 1, after)
    return np.where(position < 0, before, np.where(position > length - 1, after, position))


def _blend(unit: Floats, top: np.ndarray, left: np.ndarray, down: Floats, right: Floats) -> Floats:
    """The weighted mean of four neighbours; `top`, `left` `[N, H, W]` are whole, `down`, `right` shares of a pixel."""
    height, width = unit.shape[1:3]
    number = np.arange(len(unit))[:, None, None]
    top_row, bottom_row = mirror(top, height), mirror(top + 1, height)
    left_column, right_column = mirror(left, width), mirror(left + 1, width)
    down, right = down[..., None], right[..., None]
    return (
        unit[number, top_row, left_column] * ((1 - down) * (1 - right))
        + unit[number, top_row, right_column] * ((1 - down) * right)
        + unit[number, bottom_row, left_column] * (down * (1 - right))
        + unit[number, bottom_row, right_column] * (down * right)
    )
