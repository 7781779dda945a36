"""Rules for pooling, of any number of dimensions: images `[B, …, C]`."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from nu_ensembles.models.torch_import.channels_last import of_images
from nu_ensembles.models.torch_import.rules_convolutions import Sizes, per_axis

# Windows of up to so many pixels have their largest found tap by tap in training.
MOST_TAPS = 25


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
    for size, window, step, low, apart in zip(x.shape[1:-1], windows, steps, around, dilation, strict=True):
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
    edges: Sequence[tuple[int, int]],
    dilation: Sequence[int],
) -> Array:
    return lax.reduce_window(
        x,
        np.asarray(initial, x.dtype),
        combine,
        (1, *windows, 1),
        (1, *steps, 1),
        [(0, 0), *edges, (0, 0)],
        window_dilation=(1, *dilation, 1),
    )


@of_images("aten.max_pool1d.default", "aten.max_pool2d.default", "aten.max_pool3d.default")
def max_pool(
    images: Array,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
) -> Array:
    n = images.ndim - 2
    windows = per_axis(kernel_size, n)
    steps = per_axis(stride, n) if stride not in ((), []) else windows
    apart = per_axis(dilation, n)
    smallest = -np.inf if jnp.issubdtype(images.dtype, jnp.floating) else jnp.iinfo(images.dtype).min
    edges = _edges(images, windows, steps, per_axis(padding, n), apart, ceil_mode)
    by_taps = functools.partial(_by_taps, smallest=smallest, windows=windows, steps=steps, edges=edges, apart=apart)
    if len(list(np.ndindex(*windows))) > MOST_TAPS and set(apart) == {1}:
        return _reduced(images, lax.max, smallest, windows, steps, edges, apart)

    # On a CPU the derivative of a moving window takes longer than the convolutions around it. JAX has none of windows
    # with gaps.
    @jax.custom_jvp
    def pooled(images: Array) -> Array:
        return _reduced(images, lax.max, smallest, windows, steps, edges, apart)

    @pooled.defjvp
    def _(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
        return jax.jvp(by_taps, primals, tangents)

    return pooled(images)


def _by_taps(
    images: Array,
    smallest: float,
    windows: Sequence[int],
    steps: Sequence[int],
    edges: Sequence[tuple[int, int]],
    apart: Sequence[int],
) -> Array:
    """The first of the largest gets the derivative; what is not a number is the largest."""
    around = lax.pad(
        images, jnp.asarray(smallest, images.dtype), [(0, 0, 0), *((*edge, 0) for edge in edges), (0, 0, 0)]
    )
    first, *others = (_every(around, tap, windows, steps, apart) for tap in np.ndindex(*windows))
    return functools.reduce(lambda best, tap: jnp.where((tap > best) | (tap != tap), tap, best), others, first)


def _every(x: Array, tap: Sequence[int], windows: Sequence[int], steps: Sequence[int], apart: Sequence[int]) -> Array:
    """What each window has at one place of its own."""
    places = []
    for size, at, window, step, distance in zip(x.shape[1:-1], tap, windows, steps, apart, strict=True):
        last = size - distance * (window - 1 - at)
        places.append(slice(at * distance, last, step))
    return x[(slice(None), *places)]


@of_images("aten.max_pool2d_with_indices.default", "aten.max_pool3d_with_indices.default")
def max_pool_with_indices(*arguments: Any, **options: Any) -> tuple[Array, None]:
    return max_pool(*arguments, **options), None  # where the largest were is for unpooling only


@of_images("aten.avg_pool1d.default", "aten.avg_pool2d.default", "aten.avg_pool3d.default")
def avg_pool(
    images: Array,
    kernel_size: Sizes,
    stride: Sizes = (),
    padding: Sizes = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
    divisor_override: int | None = None,
) -> Array:
    n = images.ndim - 2
    windows, around = per_axis(kernel_size, n), per_axis(padding, n)
    steps = per_axis(stride, n) if stride not in ((), []) else windows
    edges = _edges(images, windows, steps, around, (1,) * n, ceil_mode)
    if steps == windows and not any(map(any, edges)):
        total = _side_by_side(images, windows)
    else:
        total = _reduced(images, lax.add, 0.0, windows, steps, edges, (1,) * n)
    if divisor_override is not None:
        return total / divisor_override
    counts = np.ones((), images.dtype)
    sizes, numbers = images.shape[1:-1], total.shape[1:-1]
    for size, window, step, low, n_windows in zip(sizes, windows, steps, around, numbers, strict=True):
        # Padding may count, but not what a last window sees beyond it.
        first = np.arange(n_windows) * step - low
        begin, end = (-low, size + low) if count_include_pad else (0, size)
        counts = counts[..., None] * (np.minimum(first + window, end) - np.maximum(first, begin))
    return total / counts[..., None].astype(images.dtype)


def _side_by_side(images: Array, windows: Sequence[int]) -> Array:
    """Sums of windows without gaps or overlaps; what is left over at the end belongs to none."""
    numbers = [size // window for size, window in zip(images.shape[1:-1], windows, strict=True)]
    whole = images[(slice(None), *(slice(n * window) for n, window in zip(numbers, windows, strict=True)))]
    apart = whole.reshape(whole.shape[0], *itertools.chain(*zip(numbers, windows, strict=True)), whole.shape[-1])
    return jnp.sum(apart, axis=tuple(range(2, apart.ndim - 1, 2)))


@of_images("aten.adaptive_avg_pool1d.default", "aten.adaptive_avg_pool2d.default", "aten.adaptive_avg_pool3d.default")
@of_images("aten._adaptive_avg_pool2d.default", "aten._adaptive_avg_pool3d.default")
def adaptive_avg_pool(x: Array, output_size: Sizes) -> Array:
    for axis, n in enumerate(per_axis(output_size, x.ndim - 2), 1):
        size = x.shape[axis]
        if n == 1:
            x = jnp.mean(x, axis, keepdims=True)
        elif n != size:
            means = np.zeros((n, size), x.dtype)
            for i, (start, end) in enumerate(_adaptive_windows(size, n)):
                means[i, start:end] = 1 / (end - start)
            x = jnp.moveaxis(jnp.moveaxis(x, axis, -1) @ means.T, -1, axis)
    return x


@of_images("aten.adaptive_max_pool1d.default", "aten.adaptive_max_pool2d.default", "aten.adaptive_max_pool3d.default")
def adaptive_max_pool(x: Array, output_size: Sizes) -> tuple[Array, None]:
    wanted = per_axis(output_size, x.ndim - 2)
    windows = [_adaptive_windows(size, n) for size, n in zip(x.shape[1:-1], wanted, strict=True)]
    cells = [
        jnp.max(x[(slice(None), *(slice(*bounds) for bounds in cell))], axis=tuple(range(1, x.ndim - 1)))
        for cell in itertools.product(*windows)
    ]
    return jnp.stack(cells, axis=1).reshape(x.shape[0], *wanted, x.shape[-1]), None


def _adaptive_windows(size: int, n: int) -> list[tuple[int, int]]:
    return [(i * size // n, -(-(i + 1) * size // n)) for i in range(n)]
