"""Probabilities of all lanes on rows that may not fit the device at once."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.backend import Backend
from nu_ensembles.engine.batches import padded_size
from nu_ensembles.engine.fast.threads import side_by_side
from nu_ensembles.engine.program import network_inputs
from nu_ensembles.models import Model, join_variables
from nu_ensembles.models.inspect import read_network

# Large enough to keep a GPU busy; of images a thousand, because the compiler tries kernels out on as many.
ROWS_AT_ONCE = 4096
VALUES_AT_ONCE = 3 << 20
# Where lanes go one by one on a CPU, each core takes a lane, and rows of so many values at a time, 128 small images.
# `benchmarks/prediction.py`: ten WRN-16-1 need 9 s for 2,048 on two cores, and 22 s one by one with 1,024 at a time.
VALUES_A_CORE = 3 << 17


@partial(jax.jit, static_argnames=("model", "dtype"))
def lane_probabilities(model: Model, dtype: str, params: Any, model_state: Any, x: Array) -> Array:
    """Softmax outputs `[R, N, C]` of every lane on the same rows `[N, …]`."""

    def one_lane(params: Any, state: Any) -> Array:
        return network_probabilities(model, dtype, params, state, x)

    return jax.vmap(one_lane)(params, model_state)


def network_probabilities(model: Model, dtype: str, params: Any, state: Any, x: Array) -> Array:
    """Softmax outputs `[N, C]` of one network."""
    logits = model.apply(join_variables(params, state), network_inputs(x, dtype), key=None, train=False)
    if isinstance(logits, tuple):
        logits = logits[0]
    return positive_softmax(logits)


def positive_softmax(logits: Array) -> Array:
    """Softmax over the last axis in float32 (or float64) without zeros.

    Where a finite logit's probability underflows stands the dtype's smallest normal number, 1.2e-38: the NLL of an
    overconfident network is then large, but not infinite.
    """
    dtype = jnp.promote_types(logits.dtype, jnp.float32)
    return jnp.maximum(jax.nn.softmax(logits.astype(dtype), axis=-1), jnp.finfo(dtype).tiny)


@partial(jax.jit, static_argnames=("model", "dtype"))
def masked_probabilities(model: Model, dtype: str, params: Any, model_state: Any, keys: Array, x: Array) -> Array:
    """Softmax outputs `[K, N, C]` of one network (leaves `[1, …]`) in training mode, under one key for each member.

    Every row goes through the network on its own with the member's key, so all rows meet the same dropout masks. The
    batched network is what is compiled: neither the masks nor the weights have an axis of rows.
    """
    variables = join_variables(*jax.tree.map(lambda leaf: leaf[0], (params, model_state)))

    def one_row(key: Array, row: Array) -> Array:
        logits = model.apply(variables, row[None], key=key, train=True)[0]
        return positive_softmax(logits)

    one_member = jax.vmap(one_row, in_axes=(None, 0))
    return jax.vmap(one_member, in_axes=(0, None))(keys, network_inputs(x, dtype))


@partial(jax.jit, static_argnames=("model", "dtype"))
def fold_probabilities(model: Model, dtype: str, params: Any, model_state: Any, x: Array, rows: Array) -> Array:
    """Softmax outputs `[R, V, C]` of every lane on its own rows, int `[R, V]`, of `x`."""

    def one_lane(params: Any, state: Any, rows: Array) -> Array:
        stacked = jax.tree.map(lambda leaf: leaf[None], (params, state))
        return lane_probabilities(model, dtype, *stacked, x[rows])[0]

    return jax.vmap(one_lane)(params, model_state, rows)


def row_batches(
    x: np.ndarray, rows_at_once: int | None = None, values_at_once: int | None = None
) -> Iterator[tuple[slice, np.ndarray]]:
    """Slices of the rows, each padded (by repeating its last row) to a power of two.

    Few distinct sizes reach the compiler, and at most `ROWS_AT_ONCE` rows the device.
    """
    values_a_row = int(np.prod(x.shape[1:])) or 1
    most = rows_at_once or max(1, min(ROWS_AT_ONCE, (values_at_once or VALUES_AT_ONCE) // values_a_row))
    for start in range(0, len(x), most):
        part = x[start : start + most]
        missing = min(padded_size(len(part)), most) - len(part)
        padded = np.concatenate([part, np.repeat(part[-1:], missing, axis=0)]) if missing else part
        yield slice(start, start + len(part)), padded


def lane_predictions(*arguments: Any, **options: Any) -> np.ndarray:
    """What `predict_lanes` yields, as one array `[R, N, C]`."""
    return np.concatenate([probabilities for _, probabilities in predict_lanes(*arguments, **options)], axis=1)


def predict_lanes(
    model: Model,
    dtype: str,
    params: Any,
    model_state: Any,
    x: np.ndarray,
    rows_at_once: int | None = None,
    mask_keys: np.ndarray | None = None,
    lanes_at_once: int | None = None,
) -> Iterator[tuple[slice, np.ndarray]]:
    """Yields (slice of rows, probabilities `[R, n, C]`), batch after batch, in bounded memory.

    Args:
      lanes_at_once: how many lanes go through one program; None for what is fastest here.
      mask_keys: uint32 `[R, 2]` where the lanes are dropout masks of a single network.
    """
    networks = params, model_state
    n_lanes = jax.tree.leaves(params)[0].shape[0] if mask_keys is None else len(mask_keys)
    backend = Backend.current()
    convolves = read_network(model, x.shape[1:]).n_convolutions > 0
    if lanes_at_once is None and convolves and backend.convolutions_on_host:
        lanes_at_once = 1
    group = lanes_at_once or n_lanes
    on_cores = group == 1 and n_lanes > 1 and backend.convolutions_on_host
    keys = None if mask_keys is None else jax.random.wrap_key_data(jnp.asarray(mask_keys), impl="threefry2x32")

    def probabilities(lanes: slice, rows: Array) -> Array:
        if keys is not None:
            return masked_probabilities(model, dtype, *networks, keys[lanes], rows)
        return lane_probabilities(model, dtype, *jax.tree.map(lambda leaf: leaf[lanes], networks), rows)

    groups = [slice(start, start + group) for start in range(0, n_lanes, group)]

    def of_all_lanes(rows: Array) -> list[Array]:
        if not on_cores:
            return [probabilities(lanes, rows) for lanes in groups]
        return side_by_side(
            [lambda _, lanes=lanes: jax.block_until_ready(probabilities(lanes, rows)) for lanes in groups]
        )

    for rows, part in row_batches(x, rows_at_once, VALUES_A_CORE if on_cores else None):
        outputs = of_all_lanes(jax.device_put(part))
        yield rows, np.concatenate([np.asarray(each) for each in outputs])[:, : rows.stop - rows.start]
