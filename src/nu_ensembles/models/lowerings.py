"""How a convolution of many members at once is put to the hardware: the same sums, arranged differently.

Every function here maps stacks of members, images `[K, B, H, W, C]` and kernels `[K, h, w, C, O]`, and is exact up
to rounding. Which one serves which layer is decided in `convolution.py`.

  grouped    one convolution with a group per member, channels filled up with zeros where that is faster
  pointwise  1×1 kernels only: one batched matrix product of pixels that lie as grouped convolutions have them
  patches    every window as a row (im2col), then one batched matrix product

The fourth way, member after member for CPUs, is in `unrolled.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array, lax

LAYOUT = ("NHWC", "HWIO", "NHWC")
# cuDNN's fast kernels want groups with as many input as output channels, and at least so many; zeros are cheaper than
# the kernels for other groups.
NARROWEST_GROUP = 64
# Weight gradients of wider groups fall off the fast path and are put together from blocks of this width.
WIDEST_GROUP = 128


@dataclasses.dataclass(frozen=True)
class Geometry:
    """Strides and padding of a two-dimensional convolution, `((low, high), (low, high))`."""

    strides: tuple[int, int]
    padding: tuple[tuple[int, int], tuple[int, int]]


def plain(geometry: Geometry, x: Array, w: Array) -> Array:
    """One member: `[B, H, W, C]`, `[h, w, C, O]` -> `[B, H', W', O]`."""
    return lax.conv_general_dilated(x, w, geometry.strides, geometry.padding, dimension_numbers=LAYOUT)


def grouped(geometry: Geometry, x: Array, w: Array) -> Array:
    n_members, *_, n_in, n_out = w.shape
    if n_out > n_in >= NARROWEST_GROUP and n_out % n_in == 0:
        # As many output channels as input channels at a time: no zeros are filled in and multiplied.
        parts = jnp.split(w, n_out // n_in, axis=4)
        return jnp.concatenate([grouped(geometry, x, part) for part in parts], axis=4)
    width = max(NARROWEST_GROUP, n_in, n_out)
    images, kernels = widened(x, width), widened(widened(w, width, axis=3), width)
    y = _in_groups(geometry, _members_into_channels(images), _members_into_channels(kernels), n_members)
    return _members_out_of_channels(y, n_members)[..., :n_out]


def _in_groups(geometry: Geometry, images: Array, kernels: Array, n_groups: int) -> Array:
    """`[B, H, W, G * C]`, `[h, w, C, G * O]` -> `[B, H', W', G * O]`."""
    return lax.conv_general_dilated(
        images,
        kernels,
        geometry.strides,
        geometry.padding,
        dimension_numbers=LAYOUT,
        feature_group_count=n_groups,
    )


def pointwise(geometry: Geometry, x: Array, w: Array) -> Array:
    """The product of every pixel with a 1×1 kernel.

    Pixels come first, members second and channels last, before and after: so the compiler multiplies where grouped
    convolutions left the values and writes where the next ones read. With members first it copies both.
    """
    down, right = geometry.strides
    pixels = padded(x, ((0, 0), (0, 0), *geometry.padding, (0, 0)))[:, :, ::down, ::right]
    n_members, *images, n_in = pixels.shape
    rows = jnp.moveaxis(pixels, 0, 3).reshape(-1, n_members, n_in)
    products = jnp.einsum("nkc,kco->nko", rows, w[:, 0, 0])
    return jnp.moveaxis(products.reshape(*images, n_members, -1), 3, 0)


def pointwise_weight_gradient(geometry: Geometry, x: Array, g: Array, size: tuple[int, int]) -> Array:
    return weight_gradient_of(pointwise, geometry, x, g, size)


def pointwise_input_gradient(geometry: Geometry, w: Array, g: Array, height_and_width: tuple[int, int]) -> Array:
    return input_gradient_of(pointwise)(geometry, w, g, height_and_width)


def patches(geometry: Geometry, x: Array, w: Array) -> Array:
    k, height, width, _, n_out = w.shape
    return jnp.einsum("kbhwp,kpo->kbhwo", windows(geometry, x, (height, width)), w.reshape(k, -1, n_out))


def patches_weight_gradient(geometry: Geometry, x: Array, g: Array, size: tuple[int, int]) -> Array:
    """Gradient of the kernel `[K, h, w, C, O]` from the gradient `g` of the result."""
    rows = windows(geometry, x, size)
    return jnp.einsum("kbhwp,kbhwo->kpo", rows, g).reshape(len(x), *size, x.shape[4], g.shape[4])


def patches_input_gradient(geometry: Geometry, w: Array, g: Array, height_and_width: tuple[int, int]) -> Array:
    """Gradient of the input: what each window adds to its pixels, one matrix product, then the windows overlaid.

    Pixels are grouped by their phase within a stride, so that no zeros are multiplied or written.
    """
    k, height, width, n_in, n_out = w.shape
    spread = jnp.einsum("kbhwo,kpo->kbhwp", g, w.reshape(k, -1, n_out))
    spread = spread.reshape(*g.shape[:4], height, width, n_in)
    spread = _overlaid(spread, 2, 4, geometry.strides[0], geometry.padding[0][0], height_and_width[0])
    return _overlaid(spread, 3, 4, geometry.strides[1], geometry.padding[1][0], height_and_width[1])


def grouped_input_gradient(geometry: Geometry, w: Array, g: Array, height_and_width: tuple[int, int]) -> Array:
    """Gradient of the input by grouped convolutions.

    Without a stride it is a convolution with the kernel turned by half a turn. Written out, turn and exchange of
    channels are one copy of the kernels; transposing the convolution made them two.

    Transposed, a convolution of stride s multiplies zeros between the rows and columns of `g`. Pixels of one phase
    within a stride see every s-th tap only: they are a small convolution of `g` itself, all column phases side by side
    in the channels where that makes groups of equal width.
    """
    k, *size, n_in, n_out = w.shape
    down, right = geometry.strides
    if (down, right) == (1, 1):
        turned = jnp.swapaxes(w[:, ::-1, ::-1], 3, 4)
        rows, columns = ((n - 1 - low, n - 1 - high) for n, (low, high) in zip(size, geometry.padding, strict=True))
        return grouped(Geometry((1, 1), (rows, columns)), g, turned)
    if right * n_in != n_out:
        return input_gradient_of(grouped)(geometry, w, g, height_and_width)
    depth, breadth = -(-size[0] // down), -(-size[1] // right)
    missing = [(0, 0), (0, depth * down - size[0]), (0, breadth * right - size[1]), (0, 0), (0, 0)]
    taps = jnp.pad(w, missing).reshape(k, depth, down, breadth, right, n_in, n_out)[:, ::-1, :, ::-1]
    around = Geometry((1, 1), ((depth - 1, depth - 1), (breadth - 1, breadth - 1)))
    lows = [low for low, _ in geometry.padding]
    n_rows, n_columns = (-(-(n + low) // s) for n, low, s in zip(height_and_width, lows, (down, right), strict=True))
    phases = []
    for phase in range(down):
        kernel = jnp.moveaxis(taps[:, :, phase], 5, 3).reshape(k, depth, breadth, n_out, right * n_in)
        found = grouped(around, g, kernel)
        beyond = [(0, 0), (0, 0), (0, max(0, n_rows - found.shape[2])), (0, max(0, n_columns - found.shape[3])), (0, 0)]
        found = jnp.pad(found, beyond)[:, :, :n_rows, :n_columns]
        phases.append(found.reshape(*found.shape[:4], right, n_in))
    pixels = jnp.stack(phases, axis=3).reshape(k, g.shape[1], n_rows * down, n_columns * right, n_in)
    (top, left), (height, width) = lows, height_and_width
    return pixels[:, :, top : top + height, left : left + width]


def grouped_weight_gradient(geometry: Geometry, x: Array, g: Array, size: tuple[int, int]) -> Array:
    """Gradient of the kernel by grouped convolutions of at most `WIDEST_GROUP` channels on either side."""
    n_members, n_in, n_out = len(x), x.shape[4], g.shape[4]
    x_blocks, g_blocks = (-(-n // WIDEST_GROUP) for n in (n_in, n_out))
    if x_blocks == g_blocks == 1 or n_in % x_blocks or n_out % g_blocks or n_in // x_blocks != n_out // g_blocks:
        whole = weight_gradient_of(grouped, geometry, x, g, size)
        return whole if n_in >= n_out else _put_together(whole)
    # Every pair of an input block and an output block is a group of its own; a round has as many as there are input
    # blocks, and pairs block i with block i + shift. In the channels of all members the blocks lie in order.
    width, images = n_in // x_blocks, _members_into_channels(x)
    apart = jnp.moveaxis(g.reshape(*g.shape[:4], g_blocks, width), 0, 3)
    n_groups = n_members * x_blocks
    kernels = jax.ShapeDtypeStruct((*size, width, n_groups * width), x.dtype)
    of_kernels = jax.linear_transpose(lambda w: _in_groups(geometry, images, w, n_groups), kernels)
    rounds = []
    for shift in range(g_blocks):
        if x_blocks == g_blocks == 2:
            partners = apart if shift == 0 else jnp.flip(apart, axis=4)
        else:
            partners = jnp.stack([apart[..., (i + shift) % g_blocks, :] for i in range(x_blocks)], axis=4)
        (found,) = of_kernels(partners.reshape(*apart.shape[:3], -1))
        rounds.append(found.reshape(*size, width, n_members, x_blocks, width))
    rows = [
        jnp.concatenate([rounds[(j - i) % g_blocks][..., i, :] for j in range(g_blocks)], axis=-1)
        for i in range(x_blocks)
    ]
    return _put_together(jnp.moveaxis(jnp.concatenate(rows, axis=2), 3, 0))


def _put_together(parts: Array) -> Array:
    """A concatenation that happens here: left to the compiler, it may be done anew by everybody who reads the result.

    An optimiser does so three times, for the parameters and for each of their two moments.
    """
    return lax.optimization_barrier(parts)


def input_gradient_of(
    lowering: Callable[[Geometry, Array, Array], Array],
) -> Callable[[Geometry, Array, Array, tuple[int, int]], Array]:
    """The input's gradient under a lowering, by transposing it."""

    def gradient(geometry: Geometry, w: Array, g: Array, height_and_width: tuple[int, int]) -> Array:
        x = jax.ShapeDtypeStruct((*g.shape[:2], *height_and_width, w.shape[3]), g.dtype)
        return jax.linear_transpose(lambda x: lowering(geometry, x, w), x)(g)[0]

    return gradient


def windows(geometry: Geometry, x: Array, size: tuple[int, int]) -> Array:
    """What the kernel sees at every position, `[K, B, H', W', h * w * C]`."""
    (height, width), (down, right) = size, geometry.strides
    x = jnp.pad(x, ((0, 0), (0, 0), *geometry.padding, (0, 0)))
    n_rows = (x.shape[2] - height) // down + 1
    n_columns = (x.shape[3] - width) // right + 1
    n_channels = x.shape[4]
    if n_channels <= 4 and height * width > 1:
        # Slices of so few channels are copied badly; one gather of single values is faster, but only of values that
        # lie there: without the barrier each of them would be cropped, flipped and scaled anew for every window.
        x = lax.optimization_barrier(x)
        row, column, channel = np.unravel_index(np.arange(height * width * n_channels), (height, width, n_channels))
        rows = down * np.arange(n_rows)[:, None, None] + row
        columns = right * np.arange(n_columns)[:, None] + column
        return x[:, :, rows, columns, channel]
    slices = [
        x[:, :, i : i + (n_rows - 1) * down + 1 : down, j : j + (n_columns - 1) * right + 1 : right]
        for i in range(height)
        for j in range(width)
    ]
    return jnp.concatenate(slices, axis=-1)


def _overlaid(spread: Array, axis: int, taps_axis: int, stride: int, low: int, size: int) -> Array:
    """Sums `spread[…, position, …, tap, …]` into pixel `position * stride + tap - low`; removes the axis of taps."""
    n_positions, n_taps = spread.shape[axis], spread.shape[taps_axis]
    length = -(-(size + low) // stride)  # positions of one phase that cover all pixels
    phases = []
    for phase in range(stride):
        total = None
        for tap in range(phase, n_taps, stride):
            part = lax.index_in_dim(spread, tap, taps_axis, keepdims=False)
            before = tap // stride
            beyond = length - n_positions - before
            edges = [(0, 0, 0)] * part.ndim
            edges[axis] = (before, beyond, 0)
            part = lax.pad(part, jnp.zeros((), part.dtype), edges)
            total = part if total is None else total + part
        if total is None:
            shape = list(spread.shape)
            shape[axis] = length
            del shape[taps_axis]
            total = jnp.zeros(shape, spread.dtype)
        phases.append(total)
    pixels = jnp.stack(phases, axis=axis + 1)
    pixels = pixels.reshape(*pixels.shape[:axis], length * stride, *pixels.shape[axis + 2 :])
    return lax.slice_in_dim(pixels, low, low + size, axis=axis)


def weight_gradient_of(
    lowering: Callable[[Geometry, Array, Array], Array], geometry: Geometry, x: Array, g: Array, size: tuple[int, int]
) -> Array:
    w = jax.ShapeDtypeStruct((len(x), *size, x.shape[4], g.shape[4]), x.dtype)
    return jax.linear_transpose(lambda w: lowering(geometry, x, w), w)(g)[0]


def _members_into_channels(stack: Array) -> Array:
    """`[K, a, b, c, D] -> [a, b, c, K * D]`; no copy where the compiler picks the layout."""
    moved = jnp.moveaxis(stack, 0, 3)
    return moved.reshape(*moved.shape[:3], -1)


def _members_out_of_channels(y: Array, n_members: int) -> Array:
    return jnp.moveaxis(y.reshape(*y.shape[:3], n_members, -1), 3, 0)


def widened(stack: Array, width: int, axis: int = 4) -> Array:
    """Zeros behind the channels."""
    edges = [(0, 0)] * stack.ndim
    edges[axis] = (0, width - stack.shape[axis])
    return padded(stack, edges)


def padded(x: Array, edges: Sequence[tuple[int, int]]) -> Array:
    """`jnp.pad`, which would trace an operation, and its gradient another, for edges of no width, too."""
    return jnp.pad(x, edges) if any(map(any, edges)) else x
