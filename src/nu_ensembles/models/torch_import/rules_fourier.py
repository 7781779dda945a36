"""Rules for Fourier transforms and complex numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
from jax import Array, lax

from nu_ensembles.models.torch_import.rules import torch_rule

# PyTorch's kinds of scaling, by number: none, by the root of the number of values, by their number.
EXPONENTS = (0.0, 0.5, 1.0)


def _scaled(y: Array, sizes: Sequence[int], normalization: int) -> Array:
    exponent = EXPONENTS[normalization]
    return y * (math.prod(sizes) ** -exponent) if exponent else y


def _sizes(x: Array, dim: Sequence[int]) -> list[int]:
    return [x.shape[axis] for axis in dim]


@torch_rule("aten._fft_r2c.default")
def fft_of_real(x: Array, dim: Sequence[int], normalization: int, onesided: bool) -> Array:
    transform = jnp.fft.rfftn if onesided else jnp.fft.fftn
    return _scaled(transform(x, axes=tuple(dim)), _sizes(x, dim), normalization)


@torch_rule("aten._fft_c2c.default")
def fft(x: Array, dim: Sequence[int], normalization: int, forward: bool) -> Array:
    # JAX divides by the number of values on the way back.
    y = jnp.fft.fftn(x, axes=tuple(dim)) if forward else jnp.fft.ifftn(x, axes=tuple(dim), norm="forward")
    return _scaled(y, _sizes(x, dim), normalization)


@torch_rule("aten._fft_c2r.default")
def fft_to_real(x: Array, dim: Sequence[int], normalization: int, last_dim_size: int) -> Array:
    sizes = [*_sizes(x, dim[:-1]), last_dim_size]
    return _scaled(jnp.fft.irfftn(x, s=sizes, axes=tuple(dim), norm="forward"), sizes, normalization)


@torch_rule("aten.view_as_real.default", "aten.view_as_real_copy.default")
def view_as_real(x: Array) -> Array:
    return jnp.stack([x.real, x.imag], axis=-1)


@torch_rule("aten.view_as_complex.default", "aten.view_as_complex_copy.default")
def view_as_complex(x: Array) -> Array:
    return lax.complex(x[..., 0], x[..., 1])


@torch_rule("aten.complex.default")
def complex_(real: Array, imag: Array) -> Array:
    return lax.complex(*jnp.broadcast_arrays(real, imag))


@torch_rule("aten.polar.default")
def polar(length: Array, angle: Array) -> Array:
    return complex_(length * jnp.cos(angle), length * jnp.sin(angle))


@torch_rule("aten.real.default")
def real(x: Array) -> Array:
    return jnp.real(x)


@torch_rule("aten.imag.default")
def imag(x: Array) -> Array:
    return jnp.imag(x)


@torch_rule("aten.conj.default", "aten._conj.default", "aten.conj_physical.default", "aten._conj_copy.default")
def conj(x: Array) -> Array:
    return jnp.conj(x)


@torch_rule("aten.angle.default")
def angle(x: Any) -> Array:
    return jnp.angle(x)
