"""Rules for numbers that are put together where indices say: bags of embeddings, reductions into places."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from nu_ensembles.errors import InputError
from nu_ensembles.models.torch_import.rules import torch_rule
from nu_ensembles.models.torch_import.rules_indexing import along, like_places


@torch_rule("aten._embedding_bag.default", "aten._embedding_bag_forward_only.default")
def embedding_bag(
    weight: Array,
    indices: Array,
    offsets: Array,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int = -1,
) -> tuple[Array, None, None, None]:
    """The sum (mode 0), mean (1) or largest (2) of the rows that belong to each bag; zeros for an empty one."""
    starts = offsets[:-1] if include_last_offset else offsets
    n_bags = starts.shape[0]
    bag = jnp.searchsorted(starts, jnp.arange(indices.shape[0]), side="right") - 1
    counted = jnp.ones(indices.shape, bool)
    if padding_idx >= 0:
        counted = indices != padding_idx
        bag = jnp.where(counted, bag, n_bags)  # beyond all bags
    rows = weight[indices]
    if mode == 2:
        return _largest_of(rows, bag, n_bags), None, None, None
    if per_sample_weights is not None:
        rows = rows * per_sample_weights[:, None]
    total = jax.ops.segment_sum(rows, bag, n_bags)
    if mode == 1:
        total = total / jnp.maximum(jax.ops.segment_sum(counted.astype(rows.dtype), bag, n_bags), 1)[:, None]
    return total, None, None, None


def _largest_of(rows: Array, bag: Array, n_bags: int) -> Array:
    """The first of the largest gets the derivative, as in PyTorch."""
    largest = jax.ops.segment_max(lax.stop_gradient(rows), bag, n_bags + 1)
    n_rows = rows.shape[0]
    places = jnp.where(rows == largest[bag], jnp.arange(n_rows)[:, None], n_rows)
    first = jax.ops.segment_min(places, bag, n_bags)
    nothing = first >= n_rows
    found = jnp.take_along_axis(rows, jnp.where(nothing, 0, first), axis=0)
    return jnp.where(nothing, 0, found)


@torch_rule("aten.scatter_reduce.two")
def scatter_reduce(x: Array, dim: int, index: Array, source: Array, reduce: str, *, include_self: bool = True) -> Array:
    places = along(index, dim, x.ndim)
    source = like_places(source, index)
    hit = jnp.zeros(x.shape, bool).at[places].set(True)
    if reduce in ("amax", "amin"):
        return _extreme(x, places, source, hit, reduce == "amax", include_self)
    if reduce == "prod":
        raise InputError(
            "scatter_reduce by products has no derivative here; sum logarithms, or give aten.scatter_reduce.two a rule "
            "of your own with nu.models.torch_rule."
        )
    total = (x if include_self else jnp.where(hit, 0, x)).at[places].add(source)
    if reduce == "sum":
        return total
    n = jnp.zeros(x.shape, x.dtype).at[places].add(1) + int(include_self)
    return total / jnp.maximum(n, 1)


def _extreme(x: Array, places: Any, source: Array, hit: Array, largest: bool, include_self: bool) -> Array:
    """All that are as large share the derivative, as in PyTorch."""
    sign = 1 if largest else -1
    own = hit if not include_self else jnp.zeros_like(hit)  # where x itself does not count
    fixed, given = lax.stop_gradient(x) * sign, lax.stop_gradient(source) * sign
    found = jnp.where(own, -jnp.inf, fixed).at[places].max(given)
    shares = jnp.where(own | (fixed != found), 0.0, 1.0).astype(x.dtype)
    shared = (given == found[places]).astype(x.dtype)
    n = shares.at[places].add(shared)
    return (shares * x).at[places].add(shared * source) / n


@torch_rule("aten.masked_scatter.default")
def masked_scatter(x: Array, mask: Array, source: Array) -> Array:
    """The source's numbers, one after the other, where the mask is true."""
    x, mask = jnp.broadcast_arrays(x, mask)
    number = jnp.cumsum(mask.reshape(-1)) - 1
    given = source.reshape(-1)[jnp.clip(number, 0, source.size - 1)]
    return jnp.where(mask, given.reshape(x.shape), x)


@torch_rule("aten.index_copy.default")
def index_copy(x: Array, dim: int, index: Array, source: Array) -> Array:
    return x.at[(*(slice(None),) * (dim % x.ndim), index)].set(source)


@torch_rule("aten.searchsorted.Tensor", "aten.searchsorted.Scalar")
def searchsorted(
    boundaries: Array,
    x: Any,
    *,
    out_int32: bool = False,
    right: bool = False,
    side: str | None = None,
    sorter: Any = None,
) -> Array:
    boundaries = boundaries if sorter is None else jnp.take_along_axis(boundaries, sorter, -1)
    side = side or ("right" if right else "left")
    x = jnp.asarray(x)
    if boundaries.ndim == 1:
        return jnp.searchsorted(boundaries, x, side=side)
    below = boundaries[..., None, :] <= x[..., None] if side == "right" else boundaries[..., None, :] < x[..., None]
    return jnp.sum(below, axis=-1)


@torch_rule("aten.bucketize.Tensor", "aten.bucketize.Scalar")
def bucketize(x: Any, boundaries: Array, *, out_int32: bool = False, right: bool = False) -> Array:
    return searchsorted(boundaries, x, right=right)
