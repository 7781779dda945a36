"""Fixed transformations of images that keep their shape, and the groups that some of them make.

All take `[B, H, W]` or `[B, H, W, C]`. Edges and blur are sums of shifted images, which no plan mistakes for a
convolutional network.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import jax.numpy as jnp
from jax import Array

from nu_ensembles.errors import InputError, unknown_name

ImageMap = Callable[[Array], Array]

BLUR_RADIUS, BLUR_DEVIATION = 2, 1.0


def as_is(x: Array) -> Array:
    """The image itself."""
    return x


def grey(x: Array) -> Array:
    """The mean of the channels in each of them."""
    return jnp.broadcast_to(jnp.mean(x, axis=-1, keepdims=True), x.shape)


def edges(x: Array) -> Array:
    """The length of the Sobel gradient, a quarter of the filters' sums, so that a step of height 1 gives 1."""
    smooth, slope = (0.25, 0.5, 0.25), (-1.0, 0.0, 1.0)
    down = filtered(filtered(x, slope, 1), smooth, 2)
    right = filtered(filtered(x, smooth, 1), slope, 2)
    return jnp.sqrt(down**2 + right**2)


def blur(x: Array) -> Array:
    """A Gaussian of one pixel."""
    weights = [math.exp(-0.5 * (at / BLUR_DEVIATION) ** 2) for at in range(-BLUR_RADIUS, BLUR_RADIUS + 1)]
    kernel = tuple(each / sum(weights) for each in weights)
    return filtered(filtered(x, kernel, 1), kernel, 2)


def filtered(x: Array, kernel: tuple[float, ...], axis: int) -> Array:
    """`sum_i kernel[i] x[… + i - r …]` along an axis, the image continued by its border."""
    radius, size = len(kernel) // 2, x.shape[axis]
    beyond = [(0, 0)] * x.ndim
    beyond[axis] = (radius, radius)
    padded = jnp.pad(x, beyond, mode="edge")
    parts = [weight * jnp.take(padded, jnp.arange(at, at + size), axis=axis) for at, weight in enumerate(kernel)]
    return sum(parts[1:], parts[0])


def turned(quarters: int) -> ImageMap:
    """The map that turns an image counter-clockwise."""

    def turn(x: Array) -> Array:
        return jnp.rot90(x, quarters, axes=(1, 2))

    return turn


def flipped(x: Array) -> Array:
    """Left and right exchanged."""
    return jnp.flip(x, axis=2)


MAPS: dict[str, ImageMap] = {
    "as_is": as_is,
    "grey": grey,
    "edges": edges,
    "blur": blur,
    "rotate_90": turned(1),
    "rotate_180": turned(2),
    "rotate_270": turned(3),
    "flip": flipped,
}
GROUPS: dict[str, tuple[ImageMap, ...]] = {
    "rotations": (as_is, turned(1), turned(2), turned(3)),
    "flips": (as_is, flipped),
}
NEED_SQUARES = ("rotate_90", "rotate_270", "rotations")


def check_map(name: str, row_shape: tuple[int, ...]) -> None:
    """Refuses what cannot be done to rows of a shape, or would change nothing.

    Args:
      name: of a map or of a group.
      row_shape: of one row.
    """
    if name not in MAPS and name not in GROUPS:
        raise unknown_name("transformation", name, (*MAPS, *GROUPS))
    if len(row_shape) not in (2, 3):
        raise InputError(
            f"Transformations are of images [H, W] or [H, W, C], and the rows here have the shape {row_shape}; use "
            "another method for tables."
        )
    if name in NEED_SQUARES and row_shape[0] != row_shape[1]:
        raise InputError(f"{name!r} turns images by a right angle, so they must be square, not {row_shape[:2]}.")
    if name == "grey" and (len(row_shape) == 2 or row_shape[2] == 1):
        raise InputError("'grey' changes nothing where images have one channel; leave it out.")
