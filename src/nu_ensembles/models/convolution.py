"""The one place that decides how the built-in networks convolve.

`conv_general_dilated` has the signature of `jax.lax.conv_general_dilated` and is handed to every convolution layer
(see `layers.py`); hand it to a Linen network of your own as `nn.Conv(conv_general_dilated=…)`. For one member it is
lax's own. Under `jax.vmap`, where images and kernels both have an axis of members, forward pass, input gradient and
weight gradient each get the lowering that suits the layer. Reverse mode only: `jax.jvp` does not pass through.

Ten members, 64 images each, bfloat16, on an H200 (jax 0.11): milliseconds of one pass alone, forward / input gradient
/ weight gradient, from which the rules here and in `lowerings.py` come. Arrays lie as in a network, as they do in
`benchmarks/convolution_lowerings.py`, which measures the lowerings that are chosen from. cuDNN's grouped kernels are
fast for groups with as many input as output channels, 64 to 256, and much slower for most others.

| layer                       | grouped as it is | grouped, channels filled up | patches          |
|-----------------------------|------------------|-----------------------------|------------------|
| 64 -> 64, 32x32             | .13 / .12 / .14  | the same                    | .82 / .82 / .82  |
| 128 -> 128, 16x16           | .09 / .11 / .10  | the same                    | .36 / .35 / .36  |
| 256 -> 256, 8x8             | .10 / .11 / .30  | blocks of 128: – / – / .15  | .22 / .21 / .22  |
| 16 -> 64, 32x32             | .25 / .33 / .27  | .17 / .14 / .19             | .51 / .80 / .51  |
| 32 -> 64, 16x16             | .29 / .29 / .12  | .08 / .08 / .09             | .17 / .22 / .18  |
| 64 -> 128, 32x32, stride 2  | .32 / .73 / .50  | not timed alone             | .21 / – / .24    |
| 128 -> 256, 16x16, stride 2 | .25 / .48 / .47  | not timed alone             | .11 / – / .14    |
| 3 -> 32, 32x32              | .14 / – / .14    | .41 / – / .40               | .07 / – / .04    |

1×1 kernels, by `python benchmarks/convolution_lowerings.py --kernel 1` (and what `patches` does to a network:
`lowerings.pointwise`):

| layer                       | grouped          | pointwise        | patches          |
|-----------------------------|------------------|------------------|------------------|
| 16 -> 64, 32x32             | .11 / .08 / .12  | .05 / .05 / .05  | .05 / .05 / .06  |
| 64 -> 128, 32x32, stride 2  | .07 / .12 / .09  | .05 / .08 / .08  | .05 / .08 / .06  |
| 128 -> 256, 16x16, stride 2 | .10 / .09 / .08  | .05 / .05 / .05  | .05 / .06 / .06  |

On a CPU members are unrolled, and layers of few channels compute neighbouring columns of their result together. One
member, 64 images, float32, one core (jax 0.10.2), milliseconds of the forward pass or an input gradient of that shape,
by `taskset -c 0 python benchmarks/convolution_lowerings.py --columns`:

| layer                  | one column | two  | four |
|------------------------|------------|------|------|
| 16 -> 16, 32x32        | 6.0        | 4.1  | 6.6  |
| 4 -> 16, 32x32         | 4.6        | 1.1  | 1.6  |
| 16 -> 8, 32x32         | 6.4        | 4.1  | 3.2  |
| 16 -> 24, 32x32        | 5.9        | 6.4  | 9.4  |
| 32 -> 32, 16x16        | 3.1        | 4.1  | 6.1  |
| 64 -> 16, 32x32        | 14.3       | 17.1 | 26.9 |

Weight gradients without strides have their rows moved apart there, which changes nothing but the kernel that XLA picks.
One member on one core as above, by `--weight-gradients`:

| layer                  | as it is | rows apart |
|------------------------|----------|------------|
| 3 -> 16, 32x32         | 4.9      | 1.5        |
| 16 -> 16, 32x32        | 9.6      | 5.3        |
| 32 -> 32, 16x16        | 6.8      | 3.3        |
| 64 -> 64, 8x8          | 3.4      | 2.7        |
| 3 -> 32, 32x32         | 4.7      | 2.0        |
| 32 -> 64, 16x16        | 17.9     | 5.5        |
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Literal

import jax
import jax.numpy as jnp
from jax import Array, lax
from jax.custom_batching import custom_vmap

from nu_ensembles.backend import Backend
from nu_ensembles.models import lowerings, unrolled
from nu_ensembles.models.lowerings import LAYOUT, Geometry

Lowering = Literal["grouped", "pointwise", "patches", "unrolled"]

FORWARD = {
    "grouped": lowerings.grouped,
    "pointwise": lowerings.pointwise,
    "patches": lowerings.patches,
    "unrolled": unrolled.unrolled,
}
INPUT_GRADIENT = {
    "grouped": lowerings.grouped_input_gradient,
    "pointwise": lowerings.pointwise_input_gradient,
    "patches": lowerings.patches_input_gradient,
    "unrolled": unrolled.unrolled_input_gradient,
}
WEIGHT_GRADIENT = {
    "grouped": lowerings.grouped_weight_gradient,
    "pointwise": lowerings.pointwise_weight_gradient,
    "patches": lowerings.patches_weight_gradient,
    "unrolled": unrolled.unrolled_weight_gradient,
}


def lowering_of(backend: Backend, n_members: int, kernel: tuple[int, ...]) -> Lowering:
    """The lowering of a layer.

    Args:
      kernel: `[h, w, C, O]`.
    """
    if n_members <= backend.most_unrolled:
        return "unrolled"
    if kernel[:2] == (1, 1):
        return "pointwise"
    return "patches" if kernel[2] <= backend.widest_patches else "grouped"


def conv_general_dilated(
    lhs: Array,
    rhs: Array,
    window_strides: Any,
    padding: Any,
    lhs_dilation: Any = None,
    rhs_dilation: Any = None,
    dimension_numbers: Any = None,
    feature_group_count: int = 1,
    batch_group_count: int = 1,
    precision: Any = None,
    preferred_element_type: Any = None,
    **options: Any,
) -> Array:
    """`jax.lax.conv_general_dilated` with a choice of lowering under `jax.vmap`.

    Chosen for two-dimensional convolutions of NHWC images without dilation and groups; all others are lax's.
    """
    numbers = lax.conv_dimension_numbers(lhs.shape, rhs.shape, dimension_numbers)
    served = (
        lhs.ndim == 4
        and numbers == lax.conv_dimension_numbers(lhs.shape, rhs.shape, LAYOUT)
        and all(dilation is None or set(dilation) == {1} for dilation in (lhs_dilation, rhs_dilation))
        and feature_group_count == batch_group_count == 1
        and precision is None
        and preferred_element_type is None
        and not options
        and lhs.dtype == rhs.dtype
    )
    if not served:
        return lax.conv_general_dilated(
            lhs,
            rhs,
            window_strides,
            padding,
            lhs_dilation=lhs_dilation,
            rhs_dilation=rhs_dilation,
            dimension_numbers=dimension_numbers,
            feature_group_count=feature_group_count,
            batch_group_count=batch_group_count,
            precision=precision,
            preferred_element_type=preferred_element_type,
            **options,
        )
    if isinstance(padding, str):
        padding = lax.padtype_to_pads(lhs.shape[1:3], rhs.shape[:2], window_strides, padding)
    rows, columns = ((int(low), int(high)) for low, high in padding)
    down, right = (int(stride) for stride in window_strides)
    return _convolve(Geometry((down, right), (rows, columns)), lhs, rhs)


# vmap and grad meet in either order: the derivative rule is outermost, and each of its three passes has a batching
# rule of its own. A batching rule alone would be lost under vmap(grad).
@functools.partial(jax.custom_vjp, nondiff_argnums=(0,))
def _convolve(geometry: Geometry, x: Array, w: Array) -> Array:
    return _forward(geometry)(x, w)


def _convolve_forward(geometry: Geometry, x: Array, w: Array) -> tuple[Array, tuple[Array, Array]]:
    return _forward(geometry)(x, w), (_as_kept(x), w)


def _convolve_backward(geometry: Geometry, kept: tuple[Array, Array], g: Array) -> tuple[Array, Array]:
    x, w = kept
    height, width = x.shape[1], x.shape[2]
    size = w.shape[0], w.shape[1]
    return _input_gradient(geometry, (height, width))(w, g), _weight_gradient(geometry, size)(x, g)


_convolve.defvjp(_convolve_forward, _convolve_backward)


def _as_kept(x: Array) -> Array:
    """Images `[…, B, H, W, C]` as the forward pass keeps them for the weight gradient, and back."""
    return unrolled.images_last(x) if Backend.current().images_last else x


def _pass(one_member: Callable[[Array, Array], Array], members: Callable[[Array, Array], Array]) -> Callable:
    """A pass of one member whose batching rule is the pass of many, however many `vmap`s there are around it."""

    @custom_vmap
    def stacked(a: Array, b: Array) -> Array:
        return members(a, b)

    @stacked.def_vmap
    def fold(axis_size: int, in_batched: list[bool], a: Array, b: Array) -> tuple[Array, bool]:
        a, b = (_with_axis(value, there, axis_size) for value, there in zip((a, b), in_batched, strict=True))
        folded = stacked(a.reshape(-1, *a.shape[2:]), b.reshape(-1, *b.shape[2:]))
        return folded.reshape(axis_size, -1, *folded.shape[1:]), True

    @custom_vmap
    def single(a: Array, b: Array) -> Array:
        return one_member(a, b)

    @single.def_vmap
    def stack(axis_size: int, in_batched: list[bool], a: Array, b: Array) -> tuple[Array, bool]:
        a, b = (_with_axis(value, there, axis_size) for value, there in zip((a, b), in_batched, strict=True))
        return stacked(a, b), True

    return single


def _with_axis(value: Array, there: bool, size: int) -> Array:
    return value if there else jnp.broadcast_to(value, (size, *value.shape))


@functools.cache
def _forward(geometry: Geometry) -> Callable[[Array, Array], Array]:
    def members(x: Array, w: Array) -> Array:
        return FORWARD[_chosen(w.shape)](geometry, x, w)

    return _pass(functools.partial(lowerings.plain, geometry), members)


@functools.cache
def _input_gradient(geometry: Geometry, height_and_width: tuple[int, int]) -> Callable[[Array, Array], Array]:
    def one_member(w: Array, g: Array) -> Array:
        x = jax.ShapeDtypeStruct((g.shape[0], *height_and_width, w.shape[2]), g.dtype)
        return jax.linear_transpose(lambda x: lowerings.plain(geometry, x, w), x)(g)[0]

    def members(w: Array, g: Array) -> Array:
        return INPUT_GRADIENT[_chosen(w.shape)](geometry, w, g, height_and_width)

    return _pass(one_member, members)


@functools.cache
def _weight_gradient(geometry: Geometry, size: tuple[int, int]) -> Callable[[Array, Array], Array]:
    def one_member(kept: Array, g: Array) -> Array:
        x = _as_kept(kept)
        w = jax.ShapeDtypeStruct((*size, x.shape[3], g.shape[3]), x.dtype)
        return jax.linear_transpose(lambda w: lowerings.plain(geometry, x, w), w)(g)[0]

    def members(kept: Array, g: Array) -> Array:
        x = _as_kept(kept)
        return WEIGHT_GRADIENT[_chosen((len(x), *size, x.shape[4], g.shape[4]))](geometry, x, g, size)

    return _pass(one_member, members)


def _chosen(kernels: tuple[int, ...]) -> Lowering:
    return lowering_of(Backend.current(), kernels[0], kernels[1:])
