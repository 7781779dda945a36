"""What stands between the convolutions, written so that training reads and writes each activation as rarely as it can.

The derivative rules are given by hand: they keep one byte a value, and sum the gradients of biases in float32 in the
same pass that masks them.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
from jax import Array

# Thresholds of dropout are rounded to 1/65536: two decisions from each random word.
LEVELS = 1 << 16


def _biased_relu(x: Array, bias: Array, dtype: str) -> Array:
    """`relu(x + bias)` in `dtype`; `bias` is `[C]`, or `[1]` for one scalar, and the sum is taken in its dtype."""
    return jax.nn.relu(x + bias).astype(dtype)


def _biased_relu_forward(x: Array, bias: Array, dtype: str) -> tuple[Array, tuple[Array, Array, Array]]:
    y = _biased_relu(x, bias, dtype)
    return y, (y > 0, bias, jnp.zeros((), x.dtype))


def _biased_relu_backward(dtype: str, kept: tuple[Array, Array, Array], g: Array) -> tuple[Array, Array]:
    active, bias, like_x = kept
    passed = jnp.where(active, g, 0)
    return passed.astype(like_x.dtype), _summed_to(passed, bias)


biased_relu = jax.custom_vjp(_biased_relu, nondiff_argnums=(2,))
biased_relu.defvjp(_biased_relu_forward, _biased_relu_backward)


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


def keep_mask(key: Array, shape: tuple[int, ...], keep: float) -> tuple[Array, float]:
    """A random mask that is true with probability `keep`, rounded to 1/65536, and that probability.

    Four decisions from every threefry block: `jax.random.bernoulli` spends a whole block on each, which took a
    fourteenth of a wide ResNet's training step.
    """
    *leading, last = shape
    threshold = round(keep * LEVELS)
    # Written number by number, not as one long row that is reshaped: the compiler may then lay the words out as the
    # tensor is that they mask.
    blocks = (*leading, -(-last // 4))
    counter = jnp.zeros(blocks, jnp.uint32)
    for axis, size in enumerate(blocks):
        counter = counter * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, blocks, axis)
    first, second = (jnp.broadcast_to(half, blocks) for half in jax.random.key_data(key))
    first, second = threefry2x32((first, second), (counter, jnp.zeros_like(counter)))
    low, high = jnp.uint32(LEVELS - 1), jnp.uint32(16)
    decisions = [half < jnp.uint32(threshold) for half in (first & low, first >> high, second & low, second >> high)]
    # A byte for each of the four, in one word. Without the barrier the compiler would draw it anew for each of them.
    packed = sum((keep.astype(jnp.uint32) << jnp.uint32(8 * i) for i, keep in enumerate(decisions)), jnp.uint32(0))
    apart = jax.lax.bitcast_convert_type(jax.lax.optimization_barrier(packed), jnp.uint8)
    return apart.reshape(*leading, -1)[..., :last] != 0, threshold / LEVELS


def threefry2x32(key: tuple[Array, Array], block: tuple[Array, Array]) -> tuple[Array, Array]:
    """The two random words of a block of two counters, uint32 of one shape (Salmon et al. 2011, 20 rounds).

    The bits of JAX's own. That one is a loop on a CPU, which takes three times as long to run and eight to compile as
    the rounds written out.
    """
    schedule = (*key, key[0] ^ key[1] ^ jnp.uint32(0x1BD11BDA))
    first, second = block[0] + key[0], block[1] + key[1]
    for group in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            first = first + second
            second = first ^ (second << jnp.uint32(rotation) | second >> jnp.uint32(32 - rotation))
        first = first + schedule[(group + 1) % 3]
        second = second + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return first, second


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
