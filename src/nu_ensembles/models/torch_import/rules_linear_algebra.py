"""Rules for linear algebra on the last two axes, as parametrisations of layers use it; pivots and the like are None."""

from __future__ import annotations

import jax.numpy as jnp
from jax import Array
from jax.scipy import linalg

from nu_ensembles.models.torch_import.rules import torch_rule


@torch_rule("aten.linalg_inv_ex.default")
def inv(x: Array, check_errors: bool = False) -> tuple[Array, None]:
    return jnp.linalg.inv(x), None


@torch_rule("aten._linalg_det.default")
def det(x: Array) -> tuple[Array, None, None]:
    return jnp.linalg.det(x), None, None


@torch_rule("aten._linalg_slogdet.default")
def slogdet(x: Array) -> tuple[Array, Array, None, None]:
    return *jnp.linalg.slogdet(x), None, None


@torch_rule("aten._linalg_solve_ex.default")
def solve(a: Array, b: Array, left: bool = True, check_errors: bool = False) -> tuple[Array, None, None, None]:
    vectors = b.ndim == 1 or (b.ndim == a.ndim - 1 and b.shape == a.shape[:-1])
    rhs = b[..., None] if vectors else b
    x = jnp.linalg.solve(a, rhs) if left else jnp.linalg.solve(a.mT, rhs.mT).mT
    return x[..., 0] if vectors else x, None, None, None


@torch_rule("aten.linalg_solve_triangular.default")
def solve_triangular(a: Array, b: Array, upper: bool, left: bool = True, unitriangular: bool = False) -> Array:
    a, rhs, lower = (a, b, not upper) if left else (a.mT, b.mT, upper)
    lead = jnp.broadcast_shapes(a.shape[:-2], rhs.shape[:-2])
    a, rhs = (jnp.broadcast_to(each, (*lead, *each.shape[-2:])) for each in (a, rhs))
    x = linalg.solve_triangular(a, rhs, lower=lower, unit_diagonal=unitriangular)
    return x if left else x.mT


@torch_rule("aten.linalg_cholesky_ex.default")
def cholesky(x: Array, upper: bool = False, check_errors: bool = False) -> tuple[Array, None]:
    return jnp.linalg.cholesky(x, upper=upper), None


@torch_rule("aten.linalg_matrix_exp.default")
def matrix_exp(x: Array) -> Array:
    return linalg.expm(x)


@torch_rule("aten.linalg_qr.default")
def qr(x: Array, mode: str = "reduced") -> tuple[Array, Array]:
    if mode == "r":
        return jnp.zeros((0,), x.dtype), jnp.linalg.qr(x, mode="r")
    q, r = jnp.linalg.qr(x, mode=mode)
    return q, r
