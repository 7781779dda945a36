"""Rules for sizes, and for tensors that are made of them."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array

from nu_ensembles.models.torch_import.rules import torch_rule


@torch_rule("aten.sym_size.int", "aten.size.int")
def size(x: Array, dim: int) -> int:
    return x.shape[dim]


@torch_rule("aten.sym_numel.default")
def numel(x: Array) -> int:
    return x.size


@torch_rule(
    "aten._assert_tensor_metadata.default",
    "aten._assert_scalar.default",
    "aten._assert_async.msg",
    "aten.sym_constrain_range.default",
    "aten.sym_constrain_range_for_size.default",
    "torch._check",
)
def nothing(*_: Any, **__: Any) -> None:
    """Checks of PyTorch's own."""


OF_SIZES = {
    "math.ceil": math.ceil,
    "math.floor": math.floor,
    "math.trunc": math.trunc,
    "builtins.round": round,
    "torch.sym_float": float,
    "torch.sym_int": int,
    "torch.sym_max": max,
    "torch.sym_min": min,
    "torch.sym_not": operator.not_,
}
for _name, _function in OF_SIZES.items():
    torch_rule(_name)(_function)


@torch_rule("aten.arange.default", "aten.arange.start", "aten.arange.start_step")
def arange(*bounds: Any, dtype: Any = None) -> Array:
    # With numbers alone the result is a constant of the program, as indices want to be.
    whole = all(isinstance(each, int) for each in bounds)
    return jnp.arange(*bounds, dtype=dtype if dtype is not None or whole else jnp.zeros(()).dtype)


@torch_rule("aten.linspace.default")
def linspace(start: float, end: float, steps: int, dtype: Any = None) -> Array:
    return jnp.linspace(start, end, steps, dtype=dtype)


@torch_rule("aten.full.default")
def full(size: Sequence[int], fill_value: Any, dtype: Any = None) -> Array:
    if dtype is None and isinstance(fill_value, float):
        dtype = jnp.zeros(()).dtype
    return jnp.full(tuple(size), fill_value, dtype)


@torch_rule("aten.zeros.default", "aten.empty.memory_format")
def zeros(size: Sequence[int], dtype: Any = None) -> Array:
    return jnp.zeros(tuple(size), dtype)


@torch_rule("aten.ones.default")
def ones(size: Sequence[int], dtype: Any = None) -> Array:
    return jnp.ones(tuple(size), dtype)


@torch_rule("aten.eye.default", "aten.eye.m")
def eye(n: int, m: int | None = None, dtype: Any = None) -> Array:
    return jnp.eye(n, m, dtype=dtype)


@torch_rule("aten.scalar_tensor.default")
def scalar_tensor(value: Any, dtype: Any = None) -> Array:
    return jnp.asarray(value, dtype)


@torch_rule("aten.full_like.default", "aten.fill.Scalar", "aten.fill.Tensor")
def full_like(x: Array, fill_value: Any, dtype: Any = None) -> Array:
    return jnp.full_like(x, fill_value, dtype)


@torch_rule("aten.zeros_like.default", "aten.empty_like.default", "aten.zero.default")
def zeros_like(x: Array, dtype: Any = None) -> Array:
    return jnp.zeros_like(x, dtype)


@torch_rule("aten.ones_like.default")
def ones_like(x: Array, dtype: Any = None) -> Array:
    return jnp.ones_like(x, dtype)


@torch_rule("aten.new_zeros.default", "aten.new_empty.default")
def new_zeros(x: Array, size: Sequence[int], dtype: Any = None) -> Array:
    return jnp.zeros(tuple(size), dtype or x.dtype)


@torch_rule("aten.new_ones.default")
def new_ones(x: Array, size: Sequence[int], dtype: Any = None) -> Array:
    return jnp.ones(tuple(size), dtype or x.dtype)


@torch_rule("aten.new_full.default")
def new_full(x: Array, size: Sequence[int], fill_value: Any, dtype: Any = None) -> Array:
    return jnp.full(tuple(size), fill_value, dtype or x.dtype)


@torch_rule("aten.empty_strided.default")
def empty_strided(size: Sequence[int], stride: Sequence[int], dtype: Any = None) -> Array:
    return zeros(size, dtype)


@torch_rule("aten.tril_indices.default")
def tril_indices(row: int, col: int, offset: int = 0, dtype: Any = None) -> Array:
    return jnp.stack(jnp.tril_indices(row, offset, col))


@torch_rule("aten.triu_indices.default")
def triu_indices(row: int, col: int, offset: int = 0, dtype: Any = None) -> Array:
    return jnp.stack(jnp.triu_indices(row, offset, col))
