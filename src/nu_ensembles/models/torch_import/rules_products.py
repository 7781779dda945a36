"""Rules for matrix products, and attention made of them."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.models.torch_import.rules import torch_rule
from nu_ensembles.models.torch_import.rules_random import dropped


@torch_rule("aten.linear.default")
def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    # Not `x @ weight.T`, which training would keep, and copy, beside the weight itself.
    y = jax.lax.dot_general(x, weight, (((x.ndim - 1,), (1,)), ((), ())))
    return y if bias is None else y + bias


@torch_rule(
    "aten.matmul.default",
    "aten.mm.default",
    "aten.bmm.default",
    "aten.mv.default",
    "aten.dot.default",
    "aten.vdot.default",
)
def matmul(x: Array, y: Array) -> Array:
    return x @ y


@torch_rule("aten.addmm.default", "aten.addmv.default", "aten.baddbmm.default")
def addmm(offset: Array, x: Array, y: Array, *, beta: float = 1, alpha: float = 1) -> Array:
    product = x @ y
    return (offset if beta == 1 else beta * offset) + (product if alpha == 1 else alpha * product)


@torch_rule("aten.einsum.default")
def einsum(equation: str, operands: Sequence[Array], path: Sequence[int] | None = None) -> Array:
    return jnp.einsum(equation, *operands)


@torch_rule("aten.outer.default", "aten.ger.default")
def outer(x: Array, y: Array) -> Array:
    return jnp.outer(x, y)


@torch_rule("aten.bilinear.default")
def bilinear(x: Array, y: Array, weight: Array, bias: Array | None = None) -> Array:
    z = jnp.einsum("...i,oij,...j->...o", x, weight, y)
    return z if bias is None else z + bias


@torch_rule("aten.scaled_dot_product_attention.default", draws=True)
def attention(
    query: Array,
    key_: Array,
    value: Array,
    attn_mask: Array | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    key: Array | None,
) -> Array:
    """`softmax(q k^T / sqrt(d) + mask) v` for `[…, L, d]`, `[…, S, d]`, `[…, S, e]`, with dropout of the weights."""
    if enable_gqa and key_.shape[-3] != query.shape[-3]:
        repeats = query.shape[-3] // key_.shape[-3]
        key_, value = jnp.repeat(key_, repeats, axis=-3), jnp.repeat(value, repeats, axis=-3)
    scores = (query * (query.shape[-1] ** -0.5 if scale is None else scale)) @ jnp.swapaxes(key_, -1, -2)
    if is_causal:
        attn_mask = jnp.tri(*scores.shape[-2:], dtype=bool)
    if attn_mask is None:
        weights = jax.nn.softmax(scores, axis=-1)
    elif attn_mask.dtype == bool:
        seen = jnp.where(attn_mask, scores, jnp.finfo(scores.dtype).min)
        # Zeros, not the same weight for all, where nothing may be looked at.
        weights = jnp.where(jnp.any(attn_mask, -1, keepdims=True), jax.nn.softmax(seen, axis=-1), 0.0)
    else:
        weights = jax.nn.softmax(scores + attn_mask, axis=-1)
    return dropped(weights.astype(value.dtype), dropout_p, key) @ value
