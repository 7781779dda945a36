"""Rules for operations that arrange numbers anew, and compute none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from nu_ensembles.models.torch_import.rules import torch_rule

# PyTorch's "to the end" of a slice is the largest 64-bit number.
END = 2**63 - 1


@torch_rule("aten.view.default", "aten._unsafe_view.default", "aten.reshape.default", "aten.view_copy.default")
def view(x: Array, size: Sequence[int]) -> Array:
    return jnp.reshape(x, tuple(size))


@torch_rule("aten.flatten.using_ints")
def flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    start, end = start_dim % max(x.ndim, 1), end_dim % max(x.ndim, 1)
    return jnp.reshape(x, (*x.shape[:start], -1, *x.shape[end + 1 :]))


@torch_rule("aten.unflatten.int")
def unflatten(x: Array, dim: int, sizes: Sequence[int]) -> Array:
    dim %= x.ndim
    return jnp.reshape(x, (*x.shape[:dim], *sizes, *x.shape[dim + 1 :]))


@torch_rule(
    "aten.alias.default",
    "aten.clone.default",
    "aten.contiguous.default",
    "aten.lift_fresh_copy.default",
    "aten.lift_fresh.default",
    "aten.positive.default",
)
def same(x: Array) -> Array:
    return x


@torch_rule("aten.detach.default", "aten.detach_copy.default")
def detach(x: Array) -> Array:
    return lax.stop_gradient(x)


@torch_rule("aten._to_copy.default", "aten.to.dtype", "aten.to.dtype_layout", "aten.to.device")
def to(x: Array, *_: Any, dtype: Any = None, **__: Any) -> Array:
    dtype = next((each for each in _ if isinstance(each, np.dtype)), dtype)
    return x if dtype is None else x.astype(dtype)


@torch_rule("aten.type_as.default")
def type_as(x: Array, other: Array) -> Array:
    return x.astype(other.dtype)


@torch_rule("aten.copy.default")
def copy(x: Array, values: Array, non_blocking: bool = False) -> Array:
    return jnp.broadcast_to(values, x.shape).astype(x.dtype)


@torch_rule("aten.expand.default", "aten.expand_copy.default")
def expand(x: Array, size: Sequence[int], implicit: bool = False) -> Array:
    shape = (1,) * (len(size) - x.ndim) + x.shape
    return jnp.broadcast_to(x, tuple(old if new == -1 else new for old, new in zip(shape, size, strict=True)))


@torch_rule("aten.expand_as.default")
def expand_as(x: Array, other: Array) -> Array:
    return jnp.broadcast_to(x, other.shape)


@torch_rule("aten.permute.default")
def permute(x: Array, dims: Sequence[int]) -> Array:
    return jnp.transpose(x, tuple(dims))


@torch_rule("aten.transpose.int")
def transpose(x: Array, dim0: int, dim1: int) -> Array:
    return jnp.swapaxes(x, dim0, dim1)


@torch_rule("aten.t.default", "aten.numpy_T.default")
def t(x: Array) -> Array:
    return x.T


@torch_rule("aten.unsqueeze.default")
def unsqueeze(x: Array, dim: int) -> Array:
    return jnp.expand_dims(x, dim)


@torch_rule("aten.squeeze.default", "aten.squeeze.dim", "aten.squeeze.dims")
def squeeze(x: Array, dim: int | Sequence[int] | None = None) -> Array:
    # How many rows there are may be open.
    axes = range(x.ndim) if dim is None else [dim] if isinstance(dim, int) else dim
    return jnp.squeeze(x, tuple(axis for axis in axes if x.shape[axis] == 1))


@torch_rule("aten.select.int")
def select(x: Array, dim: int, index: int) -> Array:
    return lax.index_in_dim(x, index, dim, keepdims=False)


@torch_rule("aten.slice.Tensor")
def slice_(x: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Array:
    return x[_along(x, dim, slice(start, None if end == END else end, step))]


@torch_rule("aten.narrow.default")
def narrow(x: Array, dim: int, start: int, length: int) -> Array:
    return lax.slice_in_dim(x, start, start + length, axis=dim)


@torch_rule("aten.select_scatter.default")
def select_scatter(x: Array, source: Array, dim: int, index: int) -> Array:
    return x.at[_along(x, dim, index)].set(source.astype(x.dtype))


@torch_rule("aten.slice_scatter.default")
def slice_scatter(
    x: Array, source: Array, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Array:
    at = slice(start, None if end == END else end, step)
    if at.indices(x.shape[dim]) == (0, x.shape[dim], 1):
        return source.astype(x.dtype)
    return x.at[_along(x, dim, at)].set(source.astype(x.dtype))


def _along(x: Array, dim: int, index: Any) -> tuple[Any, ...]:
    return (*(slice(None),) * (dim % x.ndim), index)


@torch_rule("aten.split.Tensor", "aten.split.default")
def split(x: Array, split_size: int | Sequence[int], dim: int = 0) -> list[Array]:
    if not isinstance(split_size, int):
        return split_with_sizes(x, split_size, dim)
    return jnp.split(x, list(range(split_size, x.shape[dim], split_size)), axis=dim)


@torch_rule("aten.split_with_sizes.default", "aten.split.sizes", "aten.split_with_sizes_copy.default")
def split_with_sizes(x: Array, split_sizes: Sequence[int], dim: int = 0) -> list[Array]:
    return jnp.split(x, np.cumsum(split_sizes)[:-1].tolist(), axis=dim)


@torch_rule("aten.chunk.default")
def chunk(x: Array, chunks: int, dim: int = 0) -> list[Array]:
    return split(x, -(-x.shape[dim] // chunks), dim)


@torch_rule("aten.tensor_split.sections")
def tensor_split(x: Array, sections: int, dim: int = 0) -> list[Array]:
    return jnp.array_split(x, sections, axis=dim)


@torch_rule("aten.unbind.int")
def unbind(x: Array, dim: int = 0) -> list[Array]:
    return [lax.index_in_dim(x, index, dim, keepdims=False) for index in range(x.shape[dim])]


@torch_rule("aten.cat.default", "aten.concat.default")
def cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    # Empty vectors go with everything, by an old habit of PyTorch's.
    return jnp.concatenate([each for each in tensors if each.shape != (0,)] or tensors, axis=dim)


@torch_rule("aten.stack.default")
def stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    return jnp.stack(tensors, axis=dim)


@torch_rule("aten.repeat.default", "aten.tile.default")
def repeat(x: Array, repeats: Sequence[int]) -> Array:
    return jnp.tile(x, tuple(repeats))


@torch_rule("aten.repeat_interleave.self_int")
def repeat_interleave(x: Array, repeats: int, dim: int | None = None, output_size: int | None = None) -> Array:
    return jnp.repeat(x, repeats, axis=dim)


@torch_rule("aten.roll.default")
def roll(x: Array, shifts: Sequence[int], dims: Sequence[int] = ()) -> Array:
    if not dims:
        return jnp.roll(x, shifts[0])
    return jnp.roll(x, tuple(shifts), axis=tuple(dims))


@torch_rule("aten.flip.default")
def flip(x: Array, dims: Sequence[int]) -> Array:
    return jnp.flip(x, tuple(dims))


@torch_rule("aten.rot90.default")
def rot90(x: Array, k: int = 1, dims: Sequence[int] = (0, 1)) -> Array:
    return jnp.rot90(x, k, (dims[0], dims[1]))


@torch_rule("aten.diagonal.default")
def diagonal(x: Array, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Array:
    return jnp.diagonal(x, offset, dim1, dim2)


@torch_rule("aten.tril.default")
def tril(x: Array, diagonal: int = 0) -> Array:
    return jnp.tril(x, diagonal)


@torch_rule("aten.triu.default")
def triu(x: Array, diagonal: int = 0) -> Array:
    return jnp.triu(x, diagonal)


@torch_rule("aten.meshgrid.indexing", "aten.meshgrid.default")
def meshgrid(tensors: Sequence[Array], indexing: str = "ij") -> list[Array]:
    return jnp.meshgrid(*tensors, indexing=indexing)


@torch_rule("aten.unfold.default")
def unfold(x: Array, dimension: int, size: int, step: int) -> Array:
    """Windows along an axis, their numbers along a new last one."""
    dimension %= x.ndim
    starts = np.arange(0, x.shape[dimension] - size + 1, step)
    windows = jnp.take(x, starts[:, None] + np.arange(size), axis=dimension)
    return jnp.moveaxis(windows, dimension + 1, -1)


@torch_rule("aten.pixel_shuffle.default")
def pixel_shuffle(x: Array, upscale_factor: int) -> Array:
    *lead, channels, height, width = x.shape
    r = upscale_factor
    apart = x.reshape(-1, channels // r**2, r, r, height, width).transpose(0, 1, 4, 2, 5, 3)
    return apart.reshape(*lead, channels // r**2, height * r, width * r)


@torch_rule("aten.pixel_unshuffle.default")
def pixel_unshuffle(x: Array, downscale_factor: int) -> Array:
    *lead, channels, height, width = x.shape
    r = downscale_factor
    apart = x.reshape(-1, channels, height // r, r, width // r, r).transpose(0, 1, 3, 5, 2, 4)
    return apart.reshape(*lead, channels * r**2, height // r, width // r)


@torch_rule("aten.channel_shuffle.default", "aten.native_channel_shuffle.default")
def channel_shuffle(x: Array, groups: int) -> Array:
    return x.reshape(x.shape[0], groups, -1, *x.shape[2:]).swapaxes(1, 2).reshape(x.shape)
