"""What stands between the convolutions, written so that training reads and writes each activation as rarely as it can.

The derivative rules are given by hand: they keep one byte a value, and sum the gradients of biases in float32 in the
same pass that masks them.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import Array

# What to add around an image: `((above, below), (left, right))`.
Margins = tuple[tuple[int, int], tuple[int, int]]
NO_MARGINS: Margins = ((0, 0), (0, 0))


def _biased_relu(x: Array, bias: Array, dtype: str, margins: Margins = NO_MARGINS) -> Array:
    """`relu(x + bias)` in `dtype`; `bias` is `[C]`, or `[1]` for one scalar, and the sum is taken in its dtype.

    Args:
      margins: zeros around each image `[B, H, W, C]`, for a convolution that would have to copy it to add them.
    """
    return _biased_relu_forward(x, bias, dtype, margins)[0]


def _biased_relu_forward(
    x: Array, bias: Array, dtype: str, margins: Margins
) -> tuple[Array, tuple[Array, Array, Array]]:
    y = jax.nn.relu(x + bias).astype(dtype)
    if margins != NO_MARGINS:
        # The barrier makes everybody read the one with margins, the derivative included.
        y = jax.lax.optimization_barrier(jnp.pad(y, ((0, 0), *margins, (0, 0))))
    return y, (within(y, margins) > 0, bias, jnp.zeros((), x.dtype))


def _biased_relu_backward(
    dtype: str, margins: Margins, kept: tuple[Array, Array, Array], g: Array
) -> tuple[Array, Array]:
    active, bias, like_x = kept
    passed = jnp.where(active, within(g, margins), 0)
    return passed.astype(like_x.dtype), _summed_to(passed, bias)


biased_relu = jax.custom_vjp(_biased_relu, nondiff_argnums=(2, 3))
biased_relu.defvjp(_biased_relu_forward, _biased_relu_backward)


def within(y: Array, margins: Margins) -> Array:
    """What lies between the margins of images `[B, H, W, C]`."""
    if margins == NO_MARGINS:
        return y
    (above, below), (left, right) = margins
    return y[:, above : y.shape[1] - below, left : y.shape[2] - right]


@functools.partial(jax.custom_vjp, nondiff_argnums=(4, 5))
def biased_relu_dropout(x: Array, before: Array, after: Array, keep: Array, kept_share: float, dtype: str) -> Array:
    """`dropout(relu(x + before) + after)` in `dtype`.

    Args:
      before, after: scalars `[1]`.
      keep: bool, of x's shape or broadcast to it; values to keep.
      kept_share: by which the kept values are divided.
    """
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


biased_relu_dropout.defvjp(_biased_relu_dropout_forward, _biased_relu_dropout_backward)


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
