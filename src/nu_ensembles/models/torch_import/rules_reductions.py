"""Rules for sums, means, softmax, extremes and orders along axes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.models.torch_import.rules import torch_rule

Axes = int | Sequence[int] | None


def _axes(dim: Axes) -> int | tuple[int, ...] | None:
    """PyTorch reads an empty list as all axes."""
    return dim if dim is None or isinstance(dim, int) else tuple(dim) or None


@torch_rule("aten.sum.default", "aten.sum.dim_IntList")
def sum_(x: Array, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    return jnp.sum(x, _axes(dim), dtype, keepdims=keepdim)


@torch_rule("aten.mean.default", "aten.mean.dim")
def mean(x: Array, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    return jnp.mean(x, _axes(dim), dtype, keepdims=keepdim)


@torch_rule("aten.prod.default", "aten.prod.dim_int")
def prod(x: Array, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    return jnp.prod(x, _axes(dim), dtype, keepdims=keepdim)


@torch_rule("aten.var.default", "aten.var.dim", "aten.var.correction")
def var(
    x: Array, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
) -> Array:
    return jnp.var(x, _axes(dim), ddof=_degrees(unbiased, correction), keepdims=keepdim)


@torch_rule("aten.std.default", "aten.std.dim", "aten.std.correction")
def std(
    x: Array, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
) -> Array:
    return jnp.std(x, _axes(dim), ddof=_degrees(unbiased, correction), keepdims=keepdim)


@torch_rule("aten.var_mean.default", "aten.var_mean.dim", "aten.var_mean.correction")
def var_mean(
    x: Array, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
) -> tuple[Array, Array]:
    return var(x, dim, unbiased, keepdim, correction), mean(x, dim, keepdim)


@torch_rule("aten.std_mean.default", "aten.std_mean.dim", "aten.std_mean.correction")
def std_mean(
    x: Array, dim: Axes = None, unbiased: bool = True, keepdim: bool = False, correction: float | None = None
) -> tuple[Array, Array]:
    return std(x, dim, unbiased, keepdim, correction), mean(x, dim, keepdim)


def _degrees(unbiased: bool, correction: float | None) -> Any:
    return int(unbiased) if correction is None else correction


@torch_rule("aten.linalg_vector_norm.default")
def vector_norm(x: Array, ord: float = 2, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    x = x if dtype is None else x.astype(dtype)
    axes = _axes(dim)
    if ord == 1:
        return jnp.sum(jnp.abs(x), axes, keepdims=keepdim)
    if abs(ord) == float("inf"):
        return (jnp.max if ord > 0 else jnp.min)(jnp.abs(x), axes, keepdims=keepdim)
    if ord == 0:
        return jnp.sum(x != 0, axes, keepdims=keepdim).astype(x.dtype)
    total = jnp.sum(jnp.square(x) if ord == 2 else jnp.abs(x) ** ord, axes, keepdims=keepdim)
    # At zero the derivative is taken to be zero, not infinite.
    nothing = total == 0
    root = jnp.where(nothing, 1.0, total)
    return jnp.where(nothing, 0.0, jnp.sqrt(root) if ord == 2 else root ** (1 / ord)).astype(x.dtype)


@torch_rule("aten.norm.ScalarOpt_dim", "aten.norm.Scalar", "aten.norm.ScalarOpt_dim_dtype")
def norm(x: Array, p: float | None = 2, dim: Axes = None, keepdim: bool = False, dtype: Any = None) -> Array:
    return vector_norm(x, 2 if p is None else p, dim, keepdim, dtype)


@torch_rule("aten.logsumexp.default")
def logsumexp(x: Array, dim: Axes, keepdim: bool = False) -> Array:
    return jax.nn.logsumexp(x, _axes(dim), keepdims=keepdim)


@torch_rule("aten.softmax.int")
def softmax(x: Array, dim: int, dtype: Any = None) -> Array:
    return jax.nn.softmax(x if dtype is None else x.astype(dtype), axis=dim)


@torch_rule("aten._safe_softmax.default")
def safe_softmax(x: Array, dim: int, dtype: Any = None) -> Array:
    """Zeros where nothing may be looked at."""
    nothing = jnp.all(jnp.isneginf(x), axis=dim, keepdims=True)
    return jnp.where(nothing, 0.0, softmax(jnp.where(nothing, 0.0, x), dim, dtype)).astype(dtype or x.dtype)


@torch_rule("aten.log_softmax.int")
def log_softmax(x: Array, dim: int, dtype: Any = None) -> Array:
    return jax.nn.log_softmax(x if dtype is None else x.astype(dtype), axis=dim)


@torch_rule("aten._softmax.default")
def core_softmax(x: Array, dim: int, half_to_float: bool) -> Array:
    return softmax(x, dim, jnp.float32 if half_to_float else None)


@torch_rule("aten._log_softmax.default")
def core_log_softmax(x: Array, dim: int, half_to_float: bool) -> Array:
    return log_softmax(x, dim, jnp.float32 if half_to_float else None)


@torch_rule("aten.amax.default")
def amax(x: Array, dim: Axes = (), keepdim: bool = False) -> Array:
    return jnp.max(x, _axes(dim), keepdims=keepdim)


@torch_rule("aten.amin.default")
def amin(x: Array, dim: Axes = (), keepdim: bool = False) -> Array:
    return jnp.min(x, _axes(dim), keepdims=keepdim)


@torch_rule("aten.max.default")
def max_(x: Array) -> Array:
    return jnp.max(x)


@torch_rule("aten.min.default")
def min_(x: Array) -> Array:
    return jnp.min(x)


@torch_rule("aten.max.dim")
def max_along(x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _picked(x, jnp.argmax(x, dim, keepdims=True), dim, keepdim)


@torch_rule("aten.min.dim")
def min_along(x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    return _picked(x, jnp.argmin(x, dim, keepdims=True), dim, keepdim)


def _picked(x: Array, at: Array, dim: int, keepdim: bool) -> tuple[Array, Array]:
    """Values at places, through which alone the derivative goes, and the places."""
    values = jnp.take_along_axis(x, at, dim)
    return (values, at) if keepdim else (jnp.squeeze(values, dim), jnp.squeeze(at, dim))


@torch_rule("aten.argmax.default")
def argmax(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return jnp.argmax(x, dim, keepdims=keepdim)


@torch_rule("aten.argmin.default")
def argmin(x: Array, dim: int | None = None, keepdim: bool = False) -> Array:
    return jnp.argmin(x, dim, keepdims=keepdim)


@torch_rule("aten.any.default", "aten.any.dim", "aten.any.dims")
def any_(x: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    return jnp.any(x, _axes(dim), keepdims=keepdim)


@torch_rule("aten.all.default", "aten.all.dim", "aten.all.dims")
def all_(x: Array, dim: Axes = None, keepdim: bool = False) -> Array:
    return jnp.all(x, _axes(dim), keepdims=keepdim)


@torch_rule("aten.cumsum.default")
def cumsum(x: Array, dim: int, dtype: Any = None) -> Array:
    return jnp.cumsum(x, dim, dtype)


@torch_rule("aten.cumprod.default")
def cumprod(x: Array, dim: int, dtype: Any = None) -> Array:
    return jnp.cumprod(x, dim, dtype)


@torch_rule("aten.sort.default", "aten.sort.stable")
def sort(x: Array, dim: int = -1, descending: bool = False, stable: bool | None = None) -> tuple[Array, Array]:
    at = argsort(x, dim, descending)
    return jnp.take_along_axis(x, at, dim), at


@torch_rule("aten.argsort.default", "aten.argsort.stable")
def argsort(x: Array, dim: int = -1, descending: bool = False, stable: bool | None = None) -> Array:
    return jnp.argsort(x, dim, stable=True, descending=descending)


@torch_rule("aten.topk.default")
def topk(x: Array, k: int, dim: int = -1, largest: bool = True, sorted: bool = True) -> tuple[Array, Array]:
    at = argsort(x, dim, descending=largest)
    at = jax.lax.slice_in_dim(at, 0, k, axis=dim)
    return jnp.take_along_axis(x, at, dim), at


@torch_rule("aten.one_hot.default")
def one_hot(x: Array, num_classes: int) -> Array:
    return jax.nn.one_hot(x, num_classes, dtype=np.int32)


@torch_rule("aten.kthvalue.default")
def kthvalue(x: Array, k: int, dim: int = -1, keepdim: bool = False) -> tuple[Array, Array]:
    return _picked(x, jax.lax.slice_in_dim(argsort(x, dim), k - 1, k, axis=dim), dim, keepdim)


@torch_rule("aten.median.dim")
def median(x: Array, dim: int, keepdim: bool = False) -> tuple[Array, Array]:
    """The lower of two in the middle."""
    return kthvalue(x, (x.shape[dim] + 1) // 2, dim, keepdim)


@torch_rule("aten.cummax.default")
def cummax(x: Array, dim: int) -> tuple[Array, Array]:
    return _running(x, dim, jax.lax.cummax)


@torch_rule("aten.cummin.default")
def cummin(x: Array, dim: int) -> tuple[Array, Array]:
    return _running(x, dim, jax.lax.cummin)


def _running(x: Array, dim: int, extreme: Any) -> tuple[Array, Array]:
    """Extremes so far, and the last places where they were found."""
    dim %= x.ndim
    found = extreme(x, dim)
    number = jnp.arange(x.shape[dim]).reshape(-1, *(1,) * (x.ndim - dim - 1))
    at = jax.lax.cummax(jnp.where(x == found, number, 0), dim)
    return jnp.take_along_axis(x, at, dim), at


@torch_rule("aten.logcumsumexp.default")
def logcumsumexp(x: Array, dim: int) -> Array:
    return jax.lax.cumlogsumexp(x, dim % x.ndim)


@torch_rule("aten._cdist_forward.default", "aten.cdist.default")
def cdist(x: Array, y: Array, p: float = 2.0, compute_mode: int | None = None) -> Array:
    """Distances of every row of `[…, P, F]` from every one of `[…, R, F]`."""
    return vector_norm(x[..., :, None, :] - y[..., None, :, :], p, -1)
