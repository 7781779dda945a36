"""Rules for resizing images `[B, C, …]`: along every axis a matrix of weights, made beforehand.

Where pixel i of the result looks: (i + ½) · scale − ½ without aligned corners. Cubic weights are Keys' with a = −¾, and
−½ where a filter against aliasing widens them, as PyTorch has it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.models.torch_import.rules import torch_rule

Numbers = Sequence[float] | None


def _triangle(distance: np.ndarray) -> np.ndarray:
    return np.maximum(0.0, 1.0 - np.abs(distance))


def _cubic(a: float) -> Callable[[np.ndarray], np.ndarray]:
    def weights(distance: np.ndarray) -> np.ndarray:
        d = np.abs(distance)
        near = ((a + 2) * d - (a + 3)) * d * d + 1
        far = ((d - 5) * d + 8) * d * a - 4 * a
        return np.where(d <= 1, near, np.where(d < 2, far, 0.0))

    return weights


def _resized(
    x: Array,
    output_size: Sequence[int] | None,
    scales: Numbers,
    matrix: Callable[[int, int, float | None], np.ndarray],
) -> Array:
    n_axes = x.ndim - 2
    for i in range(n_axes):
        size = x.shape[2 + i]
        scale = None if not scales else scales[i]
        n = output_size[i] if output_size else int(size * (scale or 1))
        weights = matrix(size, n, scale)
        if n != size or not np.array_equal(weights, np.eye(n)):
            x = jnp.moveaxis(jnp.moveaxis(x, 2 + i, -1) @ weights.T.astype(x.dtype), -1, 2 + i)
    return x


def _places(size: int, n: int, scale: float | None, align_corners: bool) -> np.ndarray:
    """Where every pixel of the result looks in the image."""
    step = _step(size, n, scale, align_corners)
    return np.arange(n) * step if align_corners else (np.arange(n) + 0.5) * step - 0.5


def _step(size: int, n: int, scale: float | None, align_corners: bool) -> float:
    """Pixels of the image to one of the result."""
    if align_corners:
        return (size - 1) / (n - 1) if n > 1 else 0.0
    return 1 / scale if scale else size / n


def _interpolating(kernel: Callable[[np.ndarray], np.ndarray], reach: int, align_corners: bool) -> Callable[..., Any]:
    def matrix(size: int, n: int, scale: float | None) -> np.ndarray:
        places = _places(size, n, scale, align_corners)
        if reach == 1:
            places = np.maximum(places, 0.0)
        weights = np.zeros((n, size))
        first = np.floor(places).astype(int)
        for offset in range(1 - reach, reach + 1):
            taps = first + offset
            np.add.at(weights, (np.arange(n), np.clip(taps, 0, size - 1)), kernel(places - taps))
        return weights

    return matrix


def _against_aliasing(
    kernel: Callable[[np.ndarray], np.ndarray], reach: float, align_corners: bool
) -> Callable[..., Any]:
    def matrix(size: int, n: int, scale: float | None) -> np.ndarray:
        step = _step(size, n, scale, align_corners)
        widened = max(step, 1.0)
        weights = np.zeros((n, size))
        for i in range(n):
            centre = step * (i + 0.5)
            begin = max(int(centre - reach * widened + 0.5), 0)
            end = min(int(centre + reach * widened + 0.5), size)
            row = kernel((np.arange(begin, end) - centre + 0.5) / widened)
            weights[i, begin:end] = row / row.sum()
        return weights

    return matrix


@torch_rule("aten.upsample_linear1d.vec", "aten.upsample_bilinear2d.vec", "aten.upsample_trilinear3d.vec")
def linear(x: Array, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Numbers) -> Array:
    return _resized(x, output_size, scale_factors, _interpolating(_triangle, 1, align_corners))


@torch_rule("aten.upsample_bicubic2d.vec")
def cubic(x: Array, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Numbers) -> Array:
    return _resized(x, output_size, scale_factors, _interpolating(_cubic(-0.75), 2, align_corners))


@torch_rule("aten._upsample_bilinear2d_aa.vec")
def linear_against_aliasing(
    x: Array, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Numbers
) -> Array:
    return _resized(x, output_size, scale_factors, _against_aliasing(_triangle, 1.0, align_corners))


@torch_rule("aten._upsample_bicubic2d_aa.vec")
def cubic_against_aliasing(
    x: Array, output_size: Sequence[int] | None, align_corners: bool, scale_factors: Numbers
) -> Array:
    return _resized(x, output_size, scale_factors, _against_aliasing(_cubic(-0.5), 2.0, align_corners))


@torch_rule("aten.upsample_nearest1d.vec", "aten.upsample_nearest2d.vec", "aten.upsample_nearest3d.vec")
def nearest(x: Array, output_size: Sequence[int] | None, scale_factors: Numbers) -> Array:
    return _nearest(x, output_size, scale_factors, 0.0)


@torch_rule(
    "aten._upsample_nearest_exact1d.vec", "aten._upsample_nearest_exact2d.vec", "aten._upsample_nearest_exact3d.vec"
)
def nearest_exact(x: Array, output_size: Sequence[int] | None, scale_factors: Numbers) -> Array:
    return _nearest(x, output_size, scale_factors, 0.5)


def _nearest(x: Array, output_size: Sequence[int] | None, scales: Numbers, shift: float) -> Array:
    for i in range(x.ndim - 2):
        size = x.shape[2 + i]
        n = output_size[i] if output_size else int(size * scales[i]) if scales else size
        step = 1 / scales[i] if scales else size / n
        if n % size == 0 and step * n == size:
            x = jnp.repeat(x, n // size, axis=2 + i)
        else:
            places = np.minimum(np.floor((np.arange(n) + shift) * step).astype(int), size - 1)
            x = jnp.take(x, places, axis=2 + i)
    return x


@torch_rule("aten.upsample_nearest1d.default", "aten.upsample_nearest2d.default", "aten.upsample_nearest3d.default")
def nearest_to(x: Array, output_size: Sequence[int], *scales: float | None) -> Array:
    return nearest(x, output_size, _given(scales))


@torch_rule("aten.upsample_linear1d.default", "aten.upsample_bilinear2d.default", "aten.upsample_trilinear3d.default")
def linear_to(x: Array, output_size: Sequence[int], align_corners: bool, *scales: float | None) -> Array:
    return linear(x, output_size, align_corners, _given(scales))


@torch_rule("aten.upsample_bicubic2d.default")
def cubic_to(x: Array, output_size: Sequence[int], align_corners: bool, *scales: float | None) -> Array:
    return cubic(x, output_size, align_corners, _given(scales))


def _given(scales: Sequence[float | None]) -> list[float] | None:
    found = [scale for scale in scales if scale is not None]
    return found if len(found) == len(scales) and found else None


@torch_rule("aten.grid_sampler.default", "aten.grid_sampler_2d.default")
def grid_sampler(x: Array, grid: Array, interpolation_mode: int, padding_mode: int, align_corners: bool) -> Array:
    """Bilinear (or, mode 1, nearest) samples of `[B, C, H, W]` at `grid[B, h, w, (x, y)]` in [-1, 1]."""
    sizes = x.shape[3], x.shape[2]
    places = []
    for axis, size in enumerate(sizes):
        at = grid[..., axis]
        at = (at + 1) / 2 * (size - 1) if align_corners else ((at + 1) * size - 1) / 2
        places.append(jnp.clip(at, 0, size - 1) if padding_mode == 1 else at)
    columns, rows = places
    if interpolation_mode == 1:
        return _pixels(x, jnp.round(rows).astype(int), jnp.round(columns).astype(int))
    top, left = jnp.floor(rows), jnp.floor(columns)
    total = jnp.zeros((), x.dtype)
    for down in (0, 1):
        for right in (0, 1):
            share = (1 - jnp.abs(rows - top - down)) * (1 - jnp.abs(columns - left - right))
            total += _pixels(x, (top + down).astype(int), (left + right).astype(int)) * share[:, None]
    return total


def _pixels(x: Array, rows: Array, columns: Array) -> Array:
    """`x[b, :, rows[b], columns[b]]`, zero outside the image."""
    height, width = x.shape[2:]
    inside = (rows >= 0) & (rows < height) & (columns >= 0) & (columns < width)
    batch = jnp.arange(x.shape[0])[:, None, None]
    found = x[batch, :, jnp.clip(rows, 0, height - 1), jnp.clip(columns, 0, width - 1)]
    return jnp.moveaxis(found, -1, 1) * inside[:, None]
