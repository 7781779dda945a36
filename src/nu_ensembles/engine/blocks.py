"""What steps draw, a block of them at once: rows of the labelled and the unlabelled set, and keys.

Everything is a function of a lane's key and the step's number, so a run may stop and go on anywhere.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.backend import Backend
from nu_ensembles.engine.batches import batch_rows, padded_size, pass_orders, rows_in_orders
from nu_ensembles.engine.fast.compilation import jitted_quickly
from nu_ensembles.engine.fast.lane_by_lane import drawn_for_lanes
from nu_ensembles.engine.fast.stretches import MANY_ROWS, Stretches
from nu_ensembles.engine.program import Lanes, Program, TrainingData
from nu_ensembles.engine.step import BATCH_USES, ORDER, STEP, UNLABELED_ORDER, Draws, lane_key
from nu_ensembles.models.inspect import read_network
from nu_ensembles.models.masks import drawn_by_place


def steps_a_block(program: Program, data: TrainingData) -> int:
    """How many steps a block has."""
    convolutional = read_network(program.model, data.x.shape[1:], program.dtype).n_convolutions > 0
    backend = Backend.current()
    return backend.block_of_convolutions if convolutional else backend.block


class Block(NamedTuple):
    """What T steps draw, computed at once; a step reads its slice.

    rows: int32 `[R, T, B]`; unlabeled_rows: int32 `[R, T, B']`, or None.
    batch_keys, network_keys: `[R, T, 3]` and `[R, T, 2]`, see `Draws`.
    """

    rows: Array
    unlabeled_rows: Array | None
    batch_keys: Array
    network_keys: Array

    def draws(self, step: Array) -> Draws:
        return Draws(*jax.tree.map(lambda drawn: drawn[:, step % self.rows.shape[1]], self))


@partial(jitted_quickly, static_argnames=("length", "batch_size", "n_padded", "least_rows"))
def lane_rows(
    keys: Array,
    use: int | Array,
    block: Array,
    n_rows: Array,
    length: int,
    batch_size: int,
    n_padded: int,
    least_rows: int,
) -> Array:
    """The rows of a block of T steps, int32 `[R, T, B]`.

    Args:
      keys: `[R]`, and one `use` of them; n_rows: `[R]`, or one number for all.
    """

    def one_lane(key: Array, n_rows: Array) -> Array:
        return batch_rows(lane_key(key, use), block * length, length, batch_size, n_rows, n_padded, least_rows)

    return jax.vmap(one_lane)(keys, jnp.broadcast_to(n_rows, keys.shape))


@partial(jitted_quickly, static_argnames=("n_passes", "n_padded"))
def lane_orders(keys: Array, use: int | Array, first_pass: Array, n_rows: Array, n_passes: int, n_padded: int) -> Array:
    """The orders of rows in passes first_pass `[R]` and up, int32 `[R, n_passes, n_padded]`."""

    def one_lane(key: Array, first_pass: Array, n_rows: Array) -> Array:
        return pass_orders(lane_key(key, use), first_pass, n_passes, n_rows, n_padded)

    return jax.vmap(one_lane)(keys, first_pass, jnp.broadcast_to(n_rows, keys.shape))


@partial(jitted_quickly, static_argnames=("length", "batch_size"))
def lane_rows_in_orders(orders: Array, block: Array, n_rows: Array, length: int, batch_size: int) -> Array:
    """What `lane_rows` gives, from orders that are at hand."""

    def one_lane(orders: Array, n_rows: Array) -> Array:
        return rows_in_orders(orders, block * length, length, batch_size, n_rows)

    return jax.vmap(one_lane)(orders, jnp.broadcast_to(n_rows, orders.shape[:1]))


class LastingOrders:
    """The orders of rows of a set so large that a pass over it outlasts a block.

    They are drawn once a pass: drawing them for every block would make a step's time grow with the set.
    """

    def __init__(self) -> None:
        self._drawn: dict[int, tuple[bytes, Array]] = {}
        self._stretches = Stretches()

    def rows(
        self, lanes: Lanes, use: int, number: int, n_rows: Array, length: int, batch_size: int, n_padded: int
    ) -> Any:
        """The rows of a block, int32 `[R, T, B]`."""
        if n_padded > MANY_ROWS and drawn_by_place():
            return self._stretches.rows(lanes, use, number, n_rows, length, batch_size, n_padded)
        n_seen = np.broadcast_to(np.asarray(n_rows, np.int64), (lanes.n_lanes,))
        first_pass = number * length * batch_size // n_seen
        if use not in self._drawn or self._drawn[use][0] != first_pass.tobytes():
            self._drawn.pop(use, None)  # frees the memory before it is needed again
            orders = lane_orders(lanes.key, use, first_pass.astype(np.int32), n_rows, 2, n_padded)
            self._drawn[use] = first_pass.tobytes(), orders
        return lane_rows_in_orders(self._drawn[use][1], np.int32(number), n_rows, length, batch_size)


@partial(jitted_quickly, static_argnames=("length",))
def lane_keys(keys: Array, block: Array, length: int) -> tuple[Array, Array]:
    """Keys of the batches and of the networks in a block of steps, `[R, T, 3]` and `[R, T, 2]`."""

    # All at once: each derivation that is written by itself takes a fifteenth of a second to compile.
    of_batch, of_network = jnp.arange(len(BATCH_USES)), jnp.zeros(1, int)

    def one_step(key: Array, step: Array) -> tuple[Array, Array]:
        batch, network = jax.random.split(jax.random.fold_in(lane_key(key, STEP), step))
        sources = jnp.stack([*[batch] * len(BATCH_USES), network])
        derived = jax.vmap(jax.random.fold_in)(sources, jnp.concatenate([of_batch, of_network]))
        return derived[:-1], jnp.stack([network, derived[-1]])

    steps = block * length + jnp.arange(length)
    return jax.vmap(jax.vmap(one_step, in_axes=(None, 0)), in_axes=(0, None))(keys, steps)


def block_of(
    program: Program, lanes: Lanes, data: TrainingData, number: int, lasting: LastingOrders | None = None
) -> Block:
    """What the steps of a block draw.

    Args:
      lasting: keeps the orders of large sets from one block to the next.
    """
    length = steps_a_block(program, data)

    def rows(use: int, n_rows: Array, batch_size: int, n_padded: int, least: int) -> Array:
        if lasting is not None and least >= length * batch_size:
            return lasting.rows(lanes, use, number, n_rows, length, batch_size, n_padded)
        how = length, batch_size, n_padded, least
        n_each = np.broadcast_to(np.asarray(n_rows), (lanes.n_lanes,))
        return drawn_for_lanes(lambda keys, n: lane_rows(keys, use, np.int32(number), n, *how), lanes.key, n_each)

    labelled = rows(ORDER, lanes.n_rows, program.batch_size, lanes.rows.shape[1], program.least_rows)
    unlabelled = None
    if data.has_unlabeled and data.n_unlabeled is not None:
        # Rows that stay outside are drawn from as many places as they would have on the device.
        n_padded = padded_size(len(data.outside)) if data.x_unlabeled is None else data.x_unlabeled.shape[0]
        least = program.least_unlabeled_rows
        unlabelled = rows(UNLABELED_ORDER, data.n_unlabeled, program.unlabeled_batch_size, n_padded, least)
    keys = drawn_for_lanes(lambda keys: lane_keys(keys, np.int32(number), length), lanes.key)
    return Block(labelled, unlabelled, *keys)


def block_shapes(program: Program, lanes: Lanes, data: TrainingData) -> Block:
    """The shapes of what `block_of` gives."""
    length = steps_a_block(program, data)

    def drawn(n: int, dtype: Any) -> Any:
        return jax.ShapeDtypeStruct((lanes.n_lanes, length, n), dtype)

    unlabelled = drawn(program.unlabeled_batch_size, jnp.int32) if data.has_unlabeled else None
    keys = (drawn(n, lanes.key.dtype) for n in (len(BATCH_USES), 2))
    return Block(drawn(program.batch_size, jnp.int32), unlabelled, *keys)
