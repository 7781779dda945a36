"""The layers that the built-in networks share, with the rule for mixed precision in one place.

Parameters are float32. Products (convolutions, matrix products) are computed in the network's `dtype`;
biases, Fixup's scalars, poolings and the last layer in float32.
"""

from __future__ import annotations

from typing import Any, Literal

import flax.linen as nn
import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.backend import Backend
from nu_ensembles.errors import InputError
from nu_ensembles.models import convolution
from nu_ensembles.models.activations import biased_relu

# What a network gives back: its logits `[B, C]`, what enters the last layer `[B, F]`, or the pair of them.
Returned = Literal["logits", "features", "both"]


def last_layer(h: Array, layer: nn.Module, returned: Returned) -> Any:
    """What a network whose features are `h` gives back."""
    # Without logits the last layer is not even called, so that nothing of it is traced.
    if returned == "features":
        return h
    return layer(h) if returned == "logits" else (layer(h), h)


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


def conv(
    features: int, kernel_size: tuple[int, int], *, dtype: Any, kernel_scale: Array | None = None, **options: Any
) -> nn.Conv:
    """A convolution layer `[B, H, W, C] -> [B, H', W', features]` that multiplies in `dtype`.

    With a bias the result has the bias's dtype; the next layer casts it back.

    Args:
      kernel_scale: multiplies the kernel, in the kernel's own dtype.
    """

    def promote(*arrays: Array | None, dtype: Any = None, inexact: bool = True) -> list[Array | None]:
        x, kernel, bias = arrays
        scaled = kernel if kernel is None or kernel_scale is None else kernel * kernel_scale
        return promote_all_but_bias(x, scaled, bias, dtype=dtype, inexact=inexact)

    return nn.Conv(
        features,
        kernel_size,
        dtype=dtype,
        param_dtype=full_dtype(dtype),
        promote_dtype=promote,
        conv_general_dilated=convolution.conv_general_dilated,
        **options,
    )


class BiasedReluConv(nn.Module):
    """`relu(convolution + bias)`, `[B, H, W, C] -> [B, H, W, features]`; parameters as `nn.Conv` has them."""

    features: int
    kernel_size: tuple[int, int]
    dtype: str

    @nn.compact
    def __call__(self, x: Array) -> Array:
        full = full_dtype(self.dtype)
        shape = (*self.kernel_size, x.shape[-1], self.features)
        kernel = self.param("kernel", nn.initializers.lecun_normal(), shape, full)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), full)
        y = convolution.conv_general_dilated(
            x.astype(self.dtype), kernel.astype(self.dtype), (1, 1), "SAME", dimension_numbers=convolution.LAYOUT
        )
        return biased_relu(y, bias, self.dtype)


def dense(features: int, *, dtype: Any, **options: Any) -> nn.Dense:
    """A dense layer `[B, F] -> [B, features]` that multiplies in `dtype`; the result has the bias's dtype."""
    return nn.Dense(features, dtype=dtype, param_dtype=full_dtype(dtype), promote_dtype=promote_all_but_bias, **options)


class GroupedDense(nn.Module):
    """A dense layer of groups that do not meet, `[B, F] -> [B, features]`: each takes its own part of the inputs."""

    features: int
    groups: int
    dtype: Any

    @nn.compact
    def __call__(self, x: Array) -> Array:
        full = full_dtype(self.dtype)
        shape = self.groups, x.shape[-1] // self.groups, self.features // self.groups
        kernel = self.param("kernel", nn.initializers.lecun_normal(batch_axis=0), shape, full)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), full)
        parts = x.astype(self.dtype).reshape(-1, *shape[:2])
        return jnp.einsum("bgi,gio->bgo", parts, kernel.astype(self.dtype)).reshape(-1, self.features) + bias


class SparseDense(nn.Module):
    """A dense layer on sparse rows, `[B, M, 2] -> [B, features]`; parameters as `nn.Dense` has them.

    A row is M pairs of a column's number and its value; what fills it up has the value 0, in any column.
    """

    features: int
    columns: int
    dtype: Any

    @nn.compact
    def __call__(self, x: Array) -> Array:
        full = full_dtype(self.dtype)
        kernel = self.param("kernel", nn.initializers.lecun_normal(), (self.columns, self.features), full)
        bias = self.param("bias", nn.initializers.zeros, (self.features,), full)
        rows = kernel.astype(self.dtype)[x[..., 0].astype(jnp.int32)]
        # A sum of products, which XLA fuses with the look-up; a matrix product would need all rows of the kernel in
        # memory, `[B, M, features]`.
        return jnp.sum(x[..., 1, None].astype(self.dtype) * rows, axis=1) + bias


def small_product(x: Array, w: Array, dimension_numbers: Any, **options: Any) -> Array:
    """`[B, F]`, `[F, C] -> [B, C]`, for `nn.Dense(dot_general=…)`: small products on a GPU without a matrix kernel.

    XLA compiles and times many matrix kernels for a product, and as many for each of its two gradients, however small
    they are. Written as a sum, each is one plain kernel.
    """
    if w.size > Backend.current().largest_sum:
        return jax.lax.dot_general(x, w, dimension_numbers, **options)
    return jnp.sum(x[..., None] * w, axis=-2)


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
