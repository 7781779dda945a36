"""Rules for convolutions, of any number of dimensions: images `[B, …, C]`, kernels `[O, C / groups, …]` as PyTorch's.

Two-dimensional ones without groups and dilation go the way of the built-in networks (`models/convolution.py`), so that
many members are lowered as theirs are; the others are lax's.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
from jax import Array, lax

from nu_ensembles.models import convolution
from nu_ensembles.models.torch_import.channels_last import of_images

Sizes = int | Sequence[int]


def per_axis(value: Sizes, n_axes: int) -> tuple[int, ...]:
    """A number for every axis of an image; PyTorch writes one for all of them where they are equal."""
    values = (value,) if isinstance(value, int) else tuple(value)
    return values * n_axes if len(values) == 1 else values


@of_images("aten.conv1d.default", "aten.conv2d.default", "aten.conv3d.default")
def conv(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    dilation: Sizes = 1,
    groups: int = 1,
) -> Array:
    around = [(size, size) for size in per_axis(padding, weight.ndim - 2)]
    return _biased(_convolved(x, weight, stride, around, dilation, groups), bias)


@of_images("aten.conv1d.padding", "aten.conv2d.padding", "aten.conv3d.padding")
def conv_padded_by_name(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: str = "valid",
    dilation: Sizes = 1,
    groups: int = 1,
) -> Array:
    around = [(0, 0)] * (weight.ndim - 2)
    if padding == "same":
        # An odd pixel goes behind the image.
        missing = [
            apart * (taps - 1) for apart, taps in zip(per_axis(dilation, len(around)), weight.shape[2:], strict=True)
        ]
        around = [(n // 2, n - n // 2) for n in missing]
    return _biased(_convolved(x, weight, stride, around, dilation, groups), bias)


@of_images("aten.convolution.default")
def convolution_(
    x: Array,
    weight: Array,
    bias: Array | None,
    stride: Sizes,
    padding: Sizes,
    dilation: Sizes,
    transposed: bool,
    output_padding: Sizes,
    groups: int,
) -> Array:
    if transposed:
        return conv_transpose(x, weight, bias, stride, padding, output_padding, groups, dilation)
    return conv(x, weight, bias, stride, padding, dilation, groups)


@of_images("aten.conv_transpose1d.default", "aten.conv_transpose2d.input", "aten.conv_transpose3d.input")
def conv_transpose(
    x: Array,
    weight: Array,
    bias: Array | None = None,
    stride: Sizes = 1,
    padding: Sizes = 0,
    output_padding: Sizes = 0,
    groups: int = 1,
    dilation: Sizes = 1,
) -> Array:
    """A convolution's input gradient; the kernel is `[C, O / groups, …]`."""
    n_axes = weight.ndim - 2
    steps, apart = per_axis(stride, n_axes), per_axis(dilation, n_axes)
    around = []
    for taps, d, p, more in zip(
        weight.shape[2:], apart, per_axis(padding, n_axes), per_axis(output_padding, n_axes), strict=True
    ):
        reach = d * (taps - 1)
        around.append((reach - p, reach - p + more))
    n_in, n_out, *taps = weight.shape
    turned = jnp.flip(weight, range(2, weight.ndim)).reshape(groups, n_in // groups, n_out, *taps)
    kernel = jnp.swapaxes(turned, 1, 2).reshape(groups * n_out, n_in // groups, *taps)
    y = lax.conv_general_dilated(
        x,
        kernel,
        (1,) * n_axes,
        around,
        lhs_dilation=steps,
        rhs_dilation=apart,
        dimension_numbers=_layout(n_axes),
        feature_group_count=groups,
    )
    return _biased(y, bias)


def _convolved(
    x: Array, weight: Array, stride: Sizes, around: Sequence[tuple[int, int]], dilation: Sizes, groups: int
) -> Array:
    n_axes = weight.ndim - 2
    steps, apart = per_axis(stride, n_axes), per_axis(dilation, n_axes)
    if n_axes == 2 and groups == 1 and apart == (1, 1):
        kernel = jnp.transpose(weight, (2, 3, 1, 0))
        numbers = convolution.LAYOUT
        return convolution.conv_general_dilated(x, kernel, steps, around, dimension_numbers=numbers)
    numbers = _layout(n_axes)
    return lax.conv_general_dilated(
        x, weight, steps, around, rhs_dilation=apart, dimension_numbers=numbers, feature_group_count=groups
    )


def _layout(n_axes: int) -> tuple[str, str, str]:
    axes = "DHW"[3 - n_axes :]
    return f"N{axes}C", f"OI{axes}", f"N{axes}C"


def _biased(y: Array, bias: Array | None) -> Array:
    return y if bias is None else y + bias
