"""Log-likelihood and cross-entropy on logits, which every method starts from [eq. 5]."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array


def log_likelihood(logits: Array, labels: Array) -> Array:
    """`log softmax(logits)[label]` of every sample.

    Args:
      logits: `[..., B, C]`.
      labels: int `[..., B]`.

    Returns:
      `[..., B]`, float32 or wider.
    """
    logits = at_least_float32(logits)
    # A masked sum, not a gather: its gradient is a product where a gather's would be a scatter.
    chosen = jnp.sum(jnp.where(labels[..., None] == jnp.arange(logits.shape[-1]), logits, 0), axis=-1)
    return chosen - jax.nn.logsumexp(logits, axis=-1)


def cross_entropy(logits: Array, labels: Array, weights: Array | None = None) -> Array:
    """Mean of `-log softmax(logits)[label]` over the batch, each sample times its weight.

    The weights have mean one over the whole set, so the batch's mean is not divided by their sum: a batch that
    happens to hold heavy samples counts for more, as it should.

    Args:
      logits: `[..., B, C]`.
      labels: int `[..., B]`.
      weights: `[..., B]`, or None for ones.

    Returns:
      `[...]`, float32 or wider.
    """
    losses = -log_likelihood(logits, labels)
    return jnp.mean(losses if weights is None else weights * losses, axis=-1)


def uniform_cross_entropy(logits: Array, weights: Array | None = None) -> Array:
    """Mean cross-entropy between the uniform distribution over the classes and `softmax(logits)`.

    Args:
      logits: `[..., B, C]`.
      weights: `[..., B]`, or None for ones.

    Returns:
      `[...]`, float32 or wider.
    """
    logits = at_least_float32(logits)
    losses = jax.nn.logsumexp(logits, axis=-1) - jnp.mean(logits, axis=-1)
    return jnp.mean(losses if weights is None else weights * losses, axis=-1)


def at_least_float32(logits: Array) -> Array:
    """Half-precision logits as float32: the softmax and the loss are never taken in half precision."""
    return logits.astype(jnp.promote_types(logits.dtype, jnp.float32))
