"""Plain expressions around convolutions, written so that training reads and writes each activation as rarely as it can.

The derivative rules are given by hand: they keep one byte a value, and sum the gradients of biases in float32 in the
same pass that masks them. What each gains: `python benchmarks/what_speed_costs.py`.
"""

from __future__ import annotations

import functools
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.models.masks import Kept


@jax.custom_vjp
def rectified(x: Array) -> Array:
    """`relu`, whose derivative keeps no zeros of the size of x, as that of `jax.nn.relu` does."""
    return jax.nn.relu(x)


def _rectified_forward(x: Array) -> tuple[Array, Array]:
    y = jax.nn.relu(x)
    return y, y > 0


def _rectified_backward(active: Array, g: Array) -> tuple[Array]:
    return (jnp.where(active, g, 0),)


rectified.defvjp(_rectified_forward, _rectified_backward)


@functools.partial(jax.custom_vjp, nondiff_argnums=(2,))
def biased_relu(x: Array, bias: Array, dtype: str) -> Array:
    """`relu(x + bias)` in `dtype`; `bias` is `[C]`, or `[1]` for one scalar, and the sum is taken in its dtype."""
    return _biased_relu_forward(x, bias, dtype)[0]


def _biased_relu_forward(x: Array, bias: Array, dtype: str) -> tuple[Array, tuple[Array, Array, Array]]:
    y = jax.nn.relu(x + bias).astype(dtype)
    return y, (y > 0, bias, jnp.zeros((), x.dtype))


def _biased_relu_backward(dtype: str, kept: tuple[Array, Array, Array], g: Array) -> tuple[Array, Array]:
    active, bias, like_x = kept
    passed = jnp.where(active, g, 0)
    return passed.astype(like_x.dtype), _summed_to(passed, bias)


biased_relu.defvjp(_biased_relu_forward, _biased_relu_backward)


def biased_relu_dropout(x: Array, before: Array, after: Array, kept: Kept | None, dtype: str) -> Array:
    """`dropout(relu(x + before) + after)` in `dtype`.

    Args:
      before, after: scalars `[1]`.
      kept: what dropout keeps; None for all.
    """
    if kept is None:
        rectified: Any = biased_relu(x, before, dtype)
        return (rectified + after).astype(dtype)
    return _biased_relu_dropout(x, before, after, jnp.broadcast_to(kept.mask, x.shape), kept.share, dtype)


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def _biased_relu_dropout(x: Array, before: Array, after: Array, keep: Array, kept_share: float, dtype: str) -> Array:
    return _biased_relu_dropout_forward(x, before, after, keep, kept_share, dtype)[0]


def _biased_relu_dropout_forward(
    x: Array, before: Array, after: Array, keep: Array, kept_share: float, dtype: str
) -> tuple[Array, tuple[Array, Array, Array]]:
    shifted = x + before
    active = shifted > 0
    y = jnp.where(keep, (jnp.where(active, shifted, 0) + after) / kept_share, 0).astype(dtype)
    # Both decisions in one byte.
    code = keep.astype(jnp.uint8) | (active.astype(jnp.uint8) << 1)
    return y, (code, before, jnp.zeros((), x.dtype))


def _biased_relu_dropout_backward(
    kept_share: float, dtype: str, kept: tuple[Array, Array, Array], g: Array
) -> tuple[Array, Array, Array, None]:
    code, before, like_x = kept
    undropped = jnp.where(code & 1 != 0, g.astype(before.dtype) / kept_share, 0)
    passed = jnp.where(code & 2 != 0, undropped, 0)
    return passed.astype(like_x.dtype), _summed_to(passed, before), _summed_to(undropped, before), None


_biased_relu_dropout.defvjp(_biased_relu_dropout_forward, _biased_relu_dropout_backward)


def biased_convolution(layer: nn.Conv, x: Array, bias: Array, dtype: str) -> Array:
    """`layer(x + bias)` in `dtype`, of a 3×3 layer without strides, taken apart.

    The scalar bias's gradient then needs no gradient of the images.
    """
    y = layer(x)
    return (y + bias * _of_ones(layer.variables["params"]["kernel"], x.shape[1:3])).astype(dtype)


def _of_ones(kernel: Array, size: tuple[int, ...]) -> Array:
    """What a convolution of the same size makes of an image of ones, `[3, 3, C, O] -> [H, W, O]`.

    That is the sum of the taps that see a pixel, written as sums because a product, however small, is one more for a
    GPU's compiler to find the fastest kernel for.
    """
    rows, columns = (np.array([[0 <= at + tap - 1 < n for tap in range(3)] for at in range(n)]) for n in size)
    taps = jnp.sum(kernel, axis=2)
    taps = jnp.sum(jnp.where(rows[:, :, None, None], taps, 0), axis=1)
    return jnp.sum(jnp.where(columns[:, :, None], taps[:, None], 0), axis=2)


def average_pool(x: Array) -> Array:
    """Means of 2×2 pixels, `[B, H, W, C] -> [B, H // 2, W // 2, C]`, in x's dtype but summed in float32."""
    height, width = x.shape[1] // 2, x.shape[2] // 2
    squares = x[:, : 2 * height, : 2 * width].reshape(x.shape[0], height, 2, width, 2, x.shape[3])
    wide = jnp.promote_types(x.dtype, jnp.float32)
    return jnp.mean(squares.astype(wide), axis=(2, 4)).astype(x.dtype)


def _summed_to(values: Array, bias: Array) -> Array:
    """The gradient of a broadcast bias `[C]` or `[1]`, summed in its dtype."""
    axes = tuple(range(values.ndim - 1 if bias.shape[0] == values.shape[-1] else values.ndim))
    return jnp.sum(values.astype(bias.dtype), axis=axes).reshape(bias.shape)
