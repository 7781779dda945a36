"""Rules for pooling, of any number of dimensions: images `[B, C, …]`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from nu_ensembles.models.torch_import.rules import torch_rule
from nu_ensembles.models.torch_import.rules_convolutions import Sizes, per_axis


def _n_windows(size: int, window: int, step: int, around: int, ceil_mode: bool) -> int:
    """How many windows there are; with `ceil_mode` a last one may reach over the edge, but must begin before it."""
    beyond = size + 2 * around - window
    n = -(-beyond // step) + 1 if ceil_mode else beyond // step + 1
    return n - 1 if ceil_mode and (n - 1) * step >= size + around else n


def _edges(
    x: Array,
    windows: Sequence[int],
    steps: Sequence[int],
    around: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> list[tuple[int, int]]:
    """What to add before and behind each axis."""
    edges = []
    for size, window, step, low, apart in zip(x.shape[-len(windows) :], windows, steps, around, dilation, strict=True):
        reach = apart * (window - 1) + 1
        n = _n_windows(size, reach, step, low, ceil_mode)
        edges.append((low, max(0, (n - 1) * step + reach - size - low)))
    return edges


def _reduced(
    x: Array,
    combine: Callable[[Any, Any], Any],
    initial: float,
    windows: Sequence[int],
    steps: Sequence[int],
    around: Sequence[int],
    dilation: Sequence[int],
    ceil_mode: bool,
) -> Array:
    edges = _edges(x, windows, steps, around, dilation, ceil_mode)
    lead = (1,) * (x.ndim - len(windows))
    none = [(0, 0)] * len(lead)
    return lax.reduce_window(
        x,
        np.asarray(initial, x.dtype),
        combine,
        (*lead, *windows),
        (*lead, *steps),
        [*none, *edges],
        window_dilation=(*lead, *dilation),
    )


@torch_rule("aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default")
def max_pool(
    x: Array,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    *,
    n_axes: int | None = None,
) -> Array:
    n = n_axes or x.ndim - 2
    windows = per_axis(kernel_size, n)
    steps = per_axis(stride, n) if stride not in ((), []) else windows
    apart = per_axis(dilation, n)
    smallest = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else jnp.iinfo(x.dtype).min
    if set(apart) == {1}:
        return _reduced(x, lax.max, smallest, windows, steps, per_axis(padding, n), apart, ceil_mode)
    # JAX has no derivative of windows with gaps. The first of the largest gets it, as in windows without.
    edges = _edges(x, windows, steps, per_axis(padding, n), apart, ceil_mode)
    around = lax.pad(x, jnp.asarray(smallest, x.dtype), [(0, 0, 0)] * (x.ndim - n) + [(*edge, 0) for edge in edges])
    taps = jnp.stack([_every(around, tap, windows, steps, apart) for tap in np.ndindex(*windows)])
    return jnp.take_along_axis(taps, jnp.argmax(taps, 0, keepdims=True), 0)[0]


def _every(x: Array, tap: Sequence[int], windows: Sequence[int], steps: Sequence[int], apart: Sequence[int]) -> Array:
    """What each window has at one place of its own."""
    places = []
    for size, at, window, step, distance in zip(x.shape[-len(tap) :], tap, windows, steps, apart, strict=True):
        last = size - distance * (window - 1 - at)
        places.append(slice(at * distance, last, step))
    return x[(..., *places)]


@torch_rule("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool_with_indices(*arguments: Any, **options: Any) -> tuple[Array, None]:
    return max_pool(*arguments, **options), None  # where the largest were is for unpooling only


@torch_rule("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(
    x: Array,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    n = x.ndim - 2
    windows, around = per_axis(kernel_size, n), per_axis(padding, n)
    steps = per_axis(stride, n) if stride not in ((), []) else windows
    total = _reduced(x, lax.add, 0.0, windows, steps, around, (1,) * n, ceil_mode)
    if divisor_override is not None:
        return total / divisor_override
    counts = np.ones((), x.dtype)
    for size, window, step, low, n_windows in zip(x.shape[2:], windows, steps, around, total.shape[2:], strict=True):
        # Padding may count, but not what a last window sees beyond it.
        first = np.arange(n_windows) * step - low
        begin, end = (-low, size + low) if count_include_pad else (0, size)
        counts = counts[..., None] * (np.minimum(first + window, end) - np.maximum(first, begin))
    return total / counts.astype(x.dtype)


@torch_rule("aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool2d.default", "aten.adaptive_avg_pool3d.default")
@torch_rule("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool(x: Array, output_size: Sizes) -> Array:
    first = x.ndim - len(_listed(output_size))
    for axis, n in enumerate(_listed(output_size), first):
        size = x.shape[axis]
        if n == 1:
            x = jnp.mean(x, axis, keepdims=True)
        elif n != size:
            means = np.zeros((n, size), x.dtype)
            for i, (start, end) in enumerate(_adaptive_windows(size, n)):
                means[i, start:end] = 1 / (end - start)
            x = jnp.moveaxis(jnp.moveaxis(x, axis, -1) @ means.T, -1, axis)
    return x


@torch_rule("aten.adaptive_max_pool1d.default", "aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def adaptive_max_pool(x: Array, output_size: Sizes) -> tuple[Array, None]:
    first = x.ndim - len(_listed(output_size))
    sizes = x.shape[first:]
    windows = [_adaptive_windows(size, n) for size, n in zip(sizes, _listed(output_size), strict=True)]
    cells = [
        jnp.max(x[(..., *(slice(*bounds) for bounds in cell))], axis=tuple(range(first, x.ndim)))
        for cell in itertools.product(*windows)
    ]
    return jnp.stack(cells, axis=-1).reshape(*x.shape[:first], *_listed(output_size)), None


def _listed(sizes: Sizes) -> tuple[int, ...]:
    return (sizes,) if isinstance(sizes, int) else tuple(sizes)


def _adaptive_windows(size: int, n: int) -> list[tuple[int, int]]:
    return [(i * size // n, -(-(i + 1) * size // n)) for i in range(n)]
