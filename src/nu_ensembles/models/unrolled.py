"""Member after member: how a CPU likes convolutions best.

Layers of few channels compute neighbouring columns of their result together; see the table in `convolution.py`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array, lax

from nu_ensembles.models.lowerings import Geometry, input_gradient_of, plain, widened

# On a CPU a convolution of three channels takes three times as long as one of four (3 -> 32, 32x32: 5.7 and 1.9 ms for
# 64 images on two cores).
LEAST_ON_CPU = 4
# XLA's fast float32 kernels for CPUs leave out layers of so few channels on both sides. They take them if neighbouring
# columns of the result are computed at once, as so many channels.
FEW_ON_CPU = 16
ENOUGH_ON_CPU = 32


def unrolled(geometry: Geometry, x: Array, w: Array) -> Array:
    return _member_by_member(_columns_together, geometry, x, w)


def unrolled_input_gradient(geometry: Geometry, w: Array, g: Array, height_and_width: tuple[int, int]) -> Array:
    if geometry.strides != (1, 1):
        return input_gradient_of(functools.partial(_member_by_member, plain))(geometry, w, g, height_and_width)
    # Without strides it is a convolution with the kernel turned round.
    top_bottom, left_right = (
        (size - 1 - low, size - 1 - high) for size, (low, high) in zip(w.shape[1:3], geometry.padding, strict=True)
    )
    return unrolled(Geometry((1, 1), (top_bottom, left_right)), g, jnp.flip(w, (1, 2)).swapaxes(3, 4))


def unrolled_weight_gradient(geometry: Geometry, x: Array, g: Array, size: tuple[int, int]) -> Array:
    kept = images_last(x)  # which undoes what was done to keep them
    if size == (1, 1) and geometry.padding == ((0, 0), (0, 0)):
        # A matrix product: as a convolution it takes three times as long.
        down, right = geometry.strides
        pixels = kept[:, :, ::down, ::right]
        products = [jnp.einsum("chwb,bhwo->co", pixels[member], g[member]) for member in range(len(g))]
        return jnp.stack(products)[:, None, None]
    if geometry.strides == (1, 1):
        return jnp.stack([spread_weight_gradient(geometry, kept[member], g[member]) for member in range(len(g))])
    return jnp.stack([_strided_weight_gradient(geometry, kept[member], g[member], size) for member in range(len(g))])


def images_last(x: Array) -> Array:
    """`[…, B, H, W, C] -> […, C, H, W, B]`, and back: as weight gradients read images, along which they sum.

    The forward pass keeps its inputs like this. Left to the backward pass, these copies would all be made as it starts,
    since nothing keeps XLA from it, and take memory until they are wanted.
    """
    return jnp.swapaxes(x, -4, -1)


def spread_weight_gradient(geometry: Geometry, kept: Array, g: Array) -> Array:
    """One member's weight gradient `[h, w, C, O]` without strides, with all rows moved twice as far apart.

    That changes no number. But the library to which XLA gives convolutions on a CPU is slow where the kernel is as
    large as the image, as here, and leaves convolutions with rows apart to XLA's own, which are not: see the table in
    `convolution.py`.

    Args:
      kept: the images, `[C, H, W, B]`.
    """
    (top, bottom), sides = geometry.padding
    return lax.conv_general_dilated(
        kept,
        g,
        window_strides=(2, 1),
        padding=((2 * top, 2 * bottom), sides),
        lhs_dilation=(2, 1),
        rhs_dilation=(2, 1),
        dimension_numbers=("NHWC", "IHWO", "HWNC"),
    )


def _strided_weight_gradient(geometry: Geometry, kept: Array, g: Array, size: tuple[int, int]) -> Array:
    def convolve(w: Array) -> Array:
        numbers = ("CHWN", "HWIO", "NHWC")
        return lax.conv_general_dilated(kept, w, geometry.strides, geometry.padding, dimension_numbers=numbers)

    w = jax.ShapeDtypeStruct((*size, len(kept), g.shape[3]), g.dtype)
    return jax.linear_transpose(convolve, w)(g)[0]


def _member_by_member(
    convolve: Callable[[Geometry, Array, Array], Array], geometry: Geometry, x: Array, w: Array
) -> Array:
    if w.shape[1:3] != (1, 1) and x.shape[4] < LEAST_ON_CPU:
        x, w = widened(x, LEAST_ON_CPU), widened(w, LEAST_ON_CPU, axis=3)
    return jnp.stack([convolve(geometry, x[member], w[member]) for member in range(len(w))])


def _columns_together(geometry: Geometry, x: Array, w: Array) -> Array:
    """`plain`, by several columns at once in layers of few channels."""
    _, width, n_in, n_out = w.shape
    together = ENOUGH_ON_CPU // n_out
    suits = (
        x.dtype == jnp.float32
        and max(n_in, n_out) <= FEW_ON_CPU
        and n_out in (FEW_ON_CPU // 2, FEW_ON_CPU)
        and width > 1
        and geometry.strides[1] == 1
        and _n_columns(geometry, x, w) % together == 0
    )
    return by_columns(geometry, x, w, together) if suits else plain(geometry, x, w)


def by_columns(geometry: Geometry, x: Array, w: Array, together: int) -> Array:
    """`plain` without strides from column to column: neighbouring columns of the result are channels of one window.

    A window of `together` columns is that much wider than the kernel, which stands in it at every place, between zeros.
    """
    places = [jnp.pad(w, ((0, 0), (place, together - 1 - place), (0, 0), (0, 0))) for place in range(together)]
    wider = Geometry((geometry.strides[0], together), geometry.padding)
    y = plain(wider, x, jnp.concatenate(places, axis=3))
    return y.reshape(*y.shape[:2], _n_columns(geometry, x, w), w.shape[3])


def _n_columns(geometry: Geometry, x: Array, w: Array) -> int:
    """Columns of a result without strides."""
    return x.shape[2] + sum(geometry.padding[1]) - w.shape[1] + 1
