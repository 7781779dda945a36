"""Rules for looking numbers up in tables, and for writing them there."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array, lax

from nu_ensembles.models.torch_import.rules import torch_rule


@torch_rule("aten.embedding.default")
def embedding(
    weight: Array, indices: Array, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Array:
    found = weight[indices]
    if padding_idx < 0:
        return found
    # The row for padding stays as it was made.
    return jnp.where((indices == padding_idx)[..., None], lax.stop_gradient(found), found)


@torch_rule("aten.index.Tensor", "aten._unsafe_index.Tensor")
def index(x: Array, indices: Sequence[Array | None]) -> Array:
    return x[_places(indices)]


@torch_rule("aten.index_put.default", "aten._unsafe_index_put.default")
def index_put(x: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False) -> Array:
    places = _places(indices)
    mask = places[0] if len(places) == 1 else None
    if mask is not None and mask.dtype == bool and jnp.ndim(values) == 0:
        mask = mask.reshape(*mask.shape, *(1,) * (x.ndim - mask.ndim))
        return jnp.where(mask, x + values if accumulate else values, x).astype(x.dtype)
    at = x.at[places]
    return at.add(values.astype(x.dtype)) if accumulate else at.set(values.astype(x.dtype))


def _places(indices: Sequence[Array | None]) -> Any:
    return tuple(slice(None) if each is None else each for each in indices)


@torch_rule("aten.index_select.default")
def index_select(x: Array, dim: int, index: Array) -> Array:
    return jnp.take(x, index, axis=dim)


@torch_rule("aten.gather.default")
def gather(x: Array, dim: int, index: Array, sparse_grad: bool = False) -> Array:
    return x[along(index, dim, x.ndim)]


@torch_rule("aten.take_along_dim.default")
def take_along_dim(x: Array, indices: Array, dim: int) -> Array:
    return jnp.take_along_axis(x, indices, dim)


@torch_rule("aten.scatter.src", "aten.scatter.value")
def scatter(x: Array, dim: int, index: Array, source: Any) -> Array:
    return x.at[along(index, dim, x.ndim)].set(like_places(source, index))


@torch_rule("aten.scatter_add.default")
def scatter_add(x: Array, dim: int, index: Array, source: Array) -> Array:
    return x.at[along(index, dim, x.ndim)].add(like_places(source, index))


def like_places(source: Any, index: Array) -> Any:
    """PyTorch reads only as much of the source as there are places."""
    return source[tuple(map(slice, index.shape))] if isinstance(source, Array) and source.ndim else source


def along(index: Array, dim: int, ndim: int) -> tuple[Array, ...]:
    """The places that an index of the result's shape names along one axis."""
    places = list(jnp.meshgrid(*map(np.arange, index.shape), indexing="ij", sparse=True))
    places[dim % ndim] = index
    return tuple(places)


@torch_rule("aten.as_strided.default")
def as_strided(x: Array, size: Sequence[int], stride: Sequence[int], storage_offset: int | None = None) -> Array:
    """Numbers at distances in memory, for tensors that lie there row by row."""
    places = [np.arange(length) * step for length, step in zip(size, stride, strict=True)]
    grids = np.meshgrid(*places, indexing="ij", sparse=True)
    at = functools.reduce(np.add, grids, np.zeros((), int)) + (storage_offset or 0)
    return x.reshape(-1)[at]


@torch_rule("aten.constant_pad_nd.default")
def constant_pad(x: Array, pad: Sequence[int], value: float = 0) -> Array:
    edges = [(low, high, 0) for low, high in _edges(x, pad)]
    return lax.pad(x, jnp.asarray(value, x.dtype), edges)  # cuts off where an edge is negative


@torch_rule("aten.pad.default")
def pad(x: Array, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Array:
    if mode == "constant":
        return constant_pad(x, pad, value or 0)
    return jnp.pad(x, _edges(x, pad), mode={"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode])


@torch_rule("aten.reflection_pad1d.default", "aten.reflection_pad2d.default", "aten.reflection_pad3d.default")
def reflection_pad(x: Array, padding: Sequence[int]) -> Array:
    return pad(x, padding, "reflect")


@torch_rule("aten.replication_pad1d.default", "aten.replication_pad2d.default", "aten.replication_pad3d.default")
def replication_pad(x: Array, padding: Sequence[int]) -> Array:
    return pad(x, padding, "replicate")


def _edges(x: Array, pad: Sequence[int]) -> list[tuple[int, int]]:
    """PyTorch counts from the last axis: `(low, high)` of the last, of the one before, …"""
    pairs = list(zip(pad[::2], pad[1::2], strict=True))
    return [(0, 0)] * (x.ndim - len(pairs)) + pairs[::-1]


@torch_rule("aten.im2col.default")
def im2col(
    x: Array, kernel_size: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> Array:
    """`[B, C, H, W] -> [B, C * h * w, L]`: the windows of an image."""
    rows, columns = _windows(x.shape[2:], kernel_size, dilation, padding, stride)
    around = [(size, size) for size in padding]
    padded = jnp.pad(x, ((0, 0), (0, 0), *around))
    found = padded[:, :, rows[:, None, :, None], columns[None, :, None, :]]
    return found.reshape(x.shape[0], x.shape[1] * rows.shape[0] * columns.shape[0], -1)


@torch_rule("aten.col2im.default")
def col2im(
    x: Array,
    output_size: Sequence[int],
    kernel_size: Sequence[int],
    dilation: Sequence[int],
    padding: Sequence[int],
    stride: Sequence[int],
) -> Array:
    """The sum of overlapping windows: what `im2col` is transposed."""
    rows, columns = _windows(output_size, kernel_size, dilation, padding, stride)
    taps = rows.shape[0], columns.shape[0], rows.shape[1], columns.shape[1]
    apart = x.reshape(x.shape[0], -1, *taps)
    height, width = (size + 2 * around for size, around in zip(output_size, padding, strict=True))
    image = jnp.zeros((*apart.shape[:2], height, width), x.dtype)
    image = image.at[:, :, rows[:, None, :, None], columns[None, :, None, :]].add(apart)
    return image[:, :, padding[0] : height - padding[0], padding[1] : width - padding[1]]


def _windows(
    sizes: Sequence[int], kernel: Sequence[int], dilation: Sequence[int], padding: Sequence[int], stride: Sequence[int]
) -> list[np.ndarray]:
    """For rows and for columns: `[tap, window]`, where in the padded image it is."""
    found = []
    for size, taps, apart, around, step in zip(sizes, kernel, dilation, padding, stride, strict=True):
        n_windows = (size + 2 * around - apart * (taps - 1) - 1) // step + 1
        found.append(np.arange(taps)[:, None] * apart + np.arange(n_windows) * step)
    return found
