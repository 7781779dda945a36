"""Rules for what is drawn at random. Each gets a key of its own; without one, what is drawn has its expected value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.models.masks import keep_masks
from nu_ensembles.models.torch_import.rules import torch_rule


def dropped(x: Array, p: float, key: Array | None) -> Array:
    """Dropout: every number is zero with probability p, and the others are larger for it."""
    return x if p == 0 or key is None else _masked(x, p, key)[0]


def _masked(x: Array, p: float, key: Array) -> tuple[Array, Array]:
    if p == 1:
        return jnp.zeros_like(x), jnp.zeros(x.shape, bool)
    (kept,) = keep_masks(key, 1, (x.shape[0], x.size // x.shape[0]), 1 - p)
    mask = kept.mask.reshape(x.shape)
    return jnp.where(mask, x / kept.share, 0).astype(x.dtype), mask


@torch_rule("aten.dropout.default", draws=True)
def dropout(x: Array, p: float, train: bool, *, key: Array | None) -> Array:
    return dropped(x, p, key) if train else x


@torch_rule("aten.native_dropout.default", draws=True)
def native_dropout(x: Array, p: float, train: bool | None, *, key: Array | None) -> tuple[Array, Array]:
    if train is False or key is None or p == 0:
        return x, jnp.ones(x.shape, bool)
    return _masked(x, p, key)


@torch_rule("aten.bernoulli.p", draws=True)
def bernoulli_of(x: Array, p: float = 0.5, *, key: Array | None) -> Array:
    return bernoulli(jnp.full(x.shape, p, x.dtype), key=key)


@torch_rule("aten.bernoulli.default", draws=True)
def bernoulli(p: Array, *, key: Array | None) -> Array:
    return p if key is None else jax.random.bernoulli(key, p).astype(p.dtype)


@torch_rule("aten.rand.default", draws=True)
def rand(size: Sequence[int], dtype: Any = None, *, key: Array | None) -> Array:
    dtype = dtype or jnp.zeros(()).dtype
    return jnp.full(tuple(size), 0.5, dtype) if key is None else jax.random.uniform(key, tuple(size), dtype)


@torch_rule("aten.randn.default", draws=True)
def randn(size: Sequence[int], dtype: Any = None, *, key: Array | None) -> Array:
    dtype = dtype or jnp.zeros(()).dtype
    return jnp.zeros(tuple(size), dtype) if key is None else jax.random.normal(key, tuple(size), dtype)


@torch_rule("aten.rand_like.default", draws=True)
def rand_like(x: Array, dtype: Any = None, *, key: Array | None) -> Array:
    return rand(x.shape, dtype or x.dtype, key=key)


@torch_rule("aten.randn_like.default", draws=True)
def randn_like(x: Array, dtype: Any = None, *, key: Array | None) -> Array:
    return randn(x.shape, dtype or x.dtype, key=key)


@torch_rule("aten.uniform.default", draws=True)
def uniform(x: Array, low: float = 0.0, high: float = 1.0, *, key: Array | None) -> Array:
    return low + (high - low) * rand(x.shape, x.dtype, key=key)


@torch_rule("aten.normal_functional.default", draws=True)
def normal(x: Array, mean: float = 0.0, std: float = 1.0, *, key: Array | None) -> Array:
    return mean + std * randn(x.shape, x.dtype, key=key)


@torch_rule("aten.exponential.default", draws=True)
def exponential(x: Array, lambd: float = 1.0, *, key: Array | None) -> Array:
    drawn = jnp.ones_like(x) if key is None else jax.random.exponential(key, x.shape, x.dtype)
    return drawn / lambd


@torch_rule("aten.randperm.default", draws=True)
def randperm(n: int, dtype: Any = None, *, key: Array | None) -> Array:
    return jnp.arange(n) if key is None else jax.random.permutation(key, n)


@torch_rule("aten.randint.low", draws=True)
def randint(low: int, high: int, size: Sequence[int], dtype: Any = None, *, key: Array | None) -> Array:
    if key is None:
        return jnp.full(tuple(size), (low + high - 1) // 2)
    return jax.random.randint(key, tuple(size), low, high)
