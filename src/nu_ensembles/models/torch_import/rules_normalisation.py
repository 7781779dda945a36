"""Rules for normalisation layers: those that look at channels get them last, `[B, …, C]`.

In training mode batch normalisation gives its new running statistics along, as further results; the graph knows which
buffers they are.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.models.torch_import.channels_last import of_images
from nu_ensembles.models.torch_import.rules import torch_rule


def _scaled(x: Array, mean: Array, variance: Array, weight: Array | None, bias: Array | None, eps: float) -> Array:
    """`(x - mean) / sqrt(variance + eps) * weight + bias`, all of them by channel."""
    scale = jax.lax.rsqrt(variance + eps)
    y = (x - mean) * (scale if weight is None else scale * weight)
    return y if bias is None else y + bias


@functools.partial(jax.custom_vjp, nondiff_argnums=(3,))
def _normalised(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Array, Array, Array]:
    """Normalised by the batch's own mean and variance, and these two, through which no gradient goes.

    The derivative is written out: it keeps one array of the images' size and makes no further one, where JAX's own
    keeps three and makes three.
    """
    return _normalised_forward(x, weight, bias, eps)[0]


def _normalised_forward(x: Array, weight: Array, bias: Array, eps: float) -> tuple[Any, tuple[Array, ...]]:
    axes = tuple(range(x.ndim - 1))
    mean = jnp.mean(x, axes)
    centred = x - mean
    variance = jnp.mean(jnp.square(centred), axes)
    scale = jax.lax.rsqrt(variance + eps)
    return (centred * (scale * weight) + bias, mean, variance), (centred, weight, scale)


def _normalised_backward(
    eps: float, kept: tuple[Array, ...], cotangents: tuple[Array, ...]
) -> tuple[Array, Array, Array]:
    (centred, weight, scale), g = kept, cotangents[0]
    axes = tuple(range(g.ndim - 1))
    n = g.size // g.shape[-1]
    of_bias = jnp.sum(g, axes)
    of_weight = scale * jnp.sum(g * centred, axes)
    of_x = (weight * scale) * (g - (of_bias / n + centred * (scale * of_weight / n)))
    return of_x, of_weight, of_bias


_normalised.defvjp(_normalised_forward, _normalised_backward)


def _by_batch(x: Array, weight: Array | None, bias: Array | None, eps: float) -> tuple[Array, Array, Array]:
    one = jnp.ones(x.shape[-1], x.dtype)
    return _normalised(x, one if weight is None else weight, jnp.zeros_like(one) if bias is None else bias, eps)


@of_images("aten._native_batch_norm_legit_functional.default")
def batch_norm_in_training(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Array, Array | None, Array | None, Array, Array]:
    if not training:
        return (
            *batch_norm_in_prediction(x, weight, bias, running_mean, running_var, momentum, eps),
            running_mean,
            running_var,
        )
    y, mean, variance = _by_batch(x, weight, bias, eps)
    n = x.size // x.shape[-1]
    # Running statistics are those of a sample: their variance is unbiased.
    new_mean = running_mean + momentum * (mean - running_mean)
    new_var = running_var + momentum * (variance * (n / max(n - 1, 1)) - running_var)
    return y, None, None, new_mean, new_var


@of_images("aten._native_batch_norm_legit_no_training.default")
def batch_norm_in_prediction(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array,
    running_var: Array,
    momentum: float,
    eps: float,
) -> tuple[Array, None, None]:
    return _scaled(x, running_mean, running_var, weight, bias, eps), None, None


@of_images("aten._native_batch_norm_legit.no_stats")
def batch_norm_without_statistics(
    x: Array, weight: Array | None, bias: Array | None, training: bool, momentum: float, eps: float
) -> tuple[Array, None, None]:
    return _by_batch(x, weight, bias, eps)[0], None, None


@torch_rule("aten.layer_norm.default")
def layer_norm(
    x: Array,
    normalized_shape: Sequence[int],
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    cudnn_enable: bool = True,
) -> Array:
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    y = _standardised(x, axes, eps)
    y = y if weight is None else y * weight
    return y if bias is None else y + bias


@torch_rule("aten.native_layer_norm.default")
def native_layer_norm(
    x: Array, normalized_shape: Sequence[int], weight: Array | None, bias: Array | None, eps: float
) -> tuple[Array, None, None]:
    return layer_norm(x, normalized_shape, weight, bias, eps), None, None


@torch_rule("aten.rms_norm.default")
def rms_norm(x: Array, normalized_shape: Sequence[int], weight: Array | None = None, eps: float | None = None) -> Array:
    axes = tuple(range(x.ndim - len(normalized_shape), x.ndim))
    eps = float(jnp.finfo(x.dtype).eps) if eps is None else eps
    y = x * jax.lax.rsqrt(jnp.mean(jnp.square(x), axes, keepdims=True) + eps)
    return y if weight is None else y * weight


@of_images("aten.group_norm.default")
def group_norm(
    x: Array,
    num_groups: int,
    weight: Array | None = None,
    bias: Array | None = None,
    eps: float = 1e-5,
    cudnn_enabled: bool = True,
) -> Array:
    groups = x.reshape(x.shape[0], -1, num_groups, x.shape[-1] // num_groups)
    return _by_channel(_standardised(groups, (1, 3), eps).reshape(x.shape), weight, bias)


@of_images("aten.native_group_norm.default")
def native_group_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    n: int,
    c: int,
    hw: int,
    group: int,
    eps: float,
) -> tuple[Array, None, None]:
    return group_norm(x, group, weight, bias, eps), None, None


@of_images("aten.instance_norm.default")
def instance_norm(
    x: Array,
    weight: Array | None,
    bias: Array | None,
    running_mean: Array | None,
    running_var: Array | None,
    use_input_stats: bool,
    momentum: float,
    eps: float,
    cudnn_enabled: bool = True,
) -> Array:
    if not use_input_stats and running_mean is not None and running_var is not None:
        return _scaled(x, running_mean, running_var, weight, bias, eps)
    return _by_channel(_standardised(x, tuple(range(1, x.ndim - 1)), eps), weight, bias)


@torch_rule("aten._weight_norm.default")
def weight_norm(v: Array, g: Array, dim: int = 0) -> Array:
    axes = tuple(axis for axis in range(v.ndim) if axis != dim % v.ndim)
    return v * (g / jnp.sqrt(jnp.sum(jnp.square(v), axes, keepdims=True)))


@torch_rule("aten.cosine_similarity.default")
def cosine_similarity(x: Array, y: Array, dim: int = 1, eps: float = 1e-8) -> Array:
    lengths = [jnp.maximum(jnp.linalg.norm(each, axis=dim), eps) for each in (x, y)]
    return jnp.sum(x * y, dim) / math.prod(lengths)


def _standardised(x: Array, axes: tuple[int, ...], eps: float) -> Array:
    mean = jnp.mean(x, axes, keepdims=True)
    centred = x - mean
    return centred * jax.lax.rsqrt(jnp.mean(jnp.square(centred), axes, keepdims=True) + eps)


def _by_channel(y: Array, weight: Array | None, bias: Array | None) -> Array:
    y = y if weight is None else y * weight
    return y if bias is None else y + bias
