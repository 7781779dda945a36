"""The layers that the built-in networks share, with the rule for mixed precision in one place.

Parameters are float32. Products (convolutions, matrix products) are computed in the network's `dtype`;
biases, Fixup's scalars, poolings and the last layer in float32.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from nu_ensembles.errors import InputError
from nu_ensembles.models import convolution


def full_dtype(dtype: Any) -> Any:
    """The dtype of parameters, sums and logits: float32 under any narrower `dtype`, float64 under float64."""
    return jnp.promote_types(dtype, jnp.float32)


def promote_all_but_bias(*arrays: Array | None, dtype: Any = None, inexact: bool = True) -> list[Array | None]:
    """Casts what is multiplied to the compute dtype and leaves the bias as it is stored.

    A bias's gradient sums over the batch and all pixels. Added in float32 to a bfloat16 product, it gives a
    float32 result, and the transposed sum runs in float32, too: bfloat16 would lose it after some hundred
    terms.
    """
    *multiplied, bias = arrays
    return [None if array is None else array.astype(dtype) for array in multiplied] + [bias]


def conv(features: int, kernel_size: tuple[int, int], *, dtype: Any, **options: Any) -> nn.Conv:
    """A convolution layer `[B, H, W, C] -> [B, H', W', features]` that multiplies in `dtype`.

    With a bias the result has the bias's dtype; the next layer casts it back.
    """
    return nn.Conv(
        features,
        kernel_size,
        dtype=dtype,
        param_dtype=full_dtype(dtype),
        promote_dtype=promote_all_but_bias,
        conv_general_dilated=convolution.conv_general_dilated,
        **options,
    )


def dense(features: int, *, dtype: Any, **options: Any) -> nn.Dense:
    """A dense layer `[B, F] -> [B, features]` that multiplies in `dtype`; the result has the bias's dtype."""
    return nn.Dense(features, dtype=dtype, param_dtype=full_dtype(dtype), promote_dtype=promote_all_but_bias, **options)


def as_images(x: Array, network: str) -> Array:
    """`[B, H, W, C]` as it is, grey images `[B, H, W]` with a channel axis."""
    if x.ndim == 3:
        return x[..., None]
    if x.ndim == 4:
        return x
    raise InputError(
        f"{network} takes images [B, H, W] or [B, H, W, C], not an array of shape {tuple(x.shape)}; "
        "use the model 'mlp' for tables."
    )
