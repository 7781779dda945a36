"""A group of lanes on its way: start, advance to a step, predict.

The loop over steps runs on the device (one compiled call for up to `BLOCK` steps, whose number is traced, so
stopping for an evaluation never compiles anything), or on the host, one call a step: on the CPU a convolution
inside a compiled loop is some thirty times slower than outside.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from nu_ensembles.engine.batches import batch_rows
from nu_ensembles.engine.program import Lanes, LaneState, Program, TrainingData, network_inputs
from nu_ensembles.engine.step import (
    ORDER,
    UNLABELED_ORDER,
    initial_state,
    lane_key,
    train_step,
)
from nu_ensembles.errors import NonFiniteLossError

# Steps whose rows are drawn at once. A compiled call does not go beyond its block.
BLOCK = 256

BlockRows = tuple[Array, Array | None]


@partial(jax.jit, static_argnames=("batch_size", "n_padded", "least_rows"))
def lane_rows(
    keys: Array, use: Array, block: Array, n_rows: Array, batch_size: int, n_padded: int, least_rows: int
) -> Array:
    """The rows of a block of steps, int32 `[R, BLOCK, B]`, from keys `[R]`, one `use` of them, and `n_rows` `[R]`."""

    def one_lane(key: Array, n_rows: Array) -> Array:
        return batch_rows(lane_key(key, use), block * BLOCK, BLOCK, batch_size, n_rows, n_padded, least_rows)

    return jax.vmap(one_lane)(keys, n_rows)


def block_rows(program: Program, lanes: Lanes, data: TrainingData, block: int) -> BlockRows:
    """The rows of all batches of a block of steps: labelled `[R, BLOCK, B]`, unlabelled `[R, BLOCK, B']` or None."""
    number = jnp.int32(block)
    n_padded = lanes.rows.shape[1]
    rows = lane_rows(lanes.key, ORDER, number, lanes.n_rows, program.batch_size, n_padded, program.least_rows)
    if data.x_unlabeled is None or data.n_unlabeled is None:
        return rows, None
    n_unlabeled = jnp.full_like(lanes.n_rows, data.n_unlabeled)
    n_padded, batch_size = data.x_unlabeled.shape[0], program.unlabeled_batch_size
    least = program.least_unlabeled_rows
    return rows, lane_rows(lanes.key, UNLABELED_ORDER, number, n_unlabeled, batch_size, n_padded, least)


def _many_steps(
    program: Program,
    state: LaneState,
    lanes: Lanes,
    data: TrainingData,
    rows: BlockRows,
    start: Array,
    end: Array,
) -> tuple[LaneState, Array]:
    def body(step: Array, carry: tuple[LaneState, Array]) -> tuple[LaneState, Array]:
        state, total = carry
        state, losses = train_step(program, state, lanes, data, *_rows_of(rows, step), step)
        return state, total + losses

    total = jnp.zeros((lanes.n_lanes,), program.dtype)
    state, total = jax.lax.fori_loop(start, end, body, (state, total))
    return state, total / (end - start)


def _rows_of(rows: BlockRows, step: Array) -> tuple[Array, Array | None]:
    labelled, unlabelled = rows
    i = step % BLOCK
    return labelled[:, i], None if unlabelled is None else unlabelled[:, i]


@partial(jax.jit, static_argnames=("program",), donate_argnames=("state",))
def many_steps(
    program: Program,
    state: LaneState,
    lanes: Lanes,
    data: TrainingData,
    rows: BlockRows,
    start: Array,
    end: Array,
) -> tuple[LaneState, Array]:
    """Steps start … end-1 of a block, of all lanes, in one compiled loop; the state and the mean losses `[R]`."""
    return _many_steps(program, state, lanes, data, rows, start, end)


@partial(jax.jit, static_argnames=("program", "mesh"), donate_argnames=("state",))
def many_sharded_steps(
    program: Program,
    mesh: Mesh,
    state: LaneState,
    lanes: Lanes,
    data: TrainingData,
    rows: BlockRows,
    start: Array,
    end: Array,
) -> tuple[LaneState, Array]:
    """The same with the lanes spread over devices; nothing is exchanged between them."""
    spread, everywhere = P("lanes"), P()
    return jax.shard_map(
        partial(_many_steps, program),
        mesh=mesh,
        in_specs=(spread, spread, everywhere, spread, everywhere, everywhere),
        out_specs=spread,
        check_vma=False,
    )(state, lanes, data, rows, start, end)


@partial(jax.jit, static_argnames=("program",), donate_argnames=("state",))
def one_step(
    program: Program, state: LaneState, lanes: Lanes, data: TrainingData, rows: BlockRows, step: Array
) -> tuple[LaneState, Array]:
    """One step of all lanes; the state and the losses `[R]`."""
    return train_step(program, state, lanes, data, *_rows_of(rows, step), step)


# Neither this nor `lane_rows` takes the whole program: another method or number of rows shares their compilation.
jitted_initial_state = jax.jit(initial_state, static_argnames=("model", "custom", "dtype"))


class Run:
    """Lanes that train together.

    Attributes:
      state: the lanes' state, on the device.
      step: how many steps they have done.
    """

    def __init__(
        self,
        program: Program,
        lanes: Lanes,
        data: TrainingData,
        *,
        on_host: bool = False,
        mesh: Mesh | None = None,
    ) -> None:
        self.program, self.on_host, self.mesh = program, on_host, mesh
        self.lanes, self.data = lanes, data
        self.step = 0
        self._block_rows: tuple[int, BlockRows] | None = None
        if mesh is not None:
            self.lanes = jax.device_put(lanes, NamedSharding(mesh, P("lanes")))
            self.data = jax.device_put(data, NamedSharding(mesh, P()))
        example = network_inputs(jnp.zeros((1, *data.x.shape[1:]), data.x.dtype), program.dtype)
        hyper = self.lanes.key, self.lanes.learning_rate, self.lanes.weight_decay
        self.state = self._placed(
            jitted_initial_state(program.model, program.optimiser, program.dtype, *hyper, example)
        )

    def _placed(self, state: LaneState) -> LaneState:
        return state if self.mesh is None else jax.device_put(state, NamedSharding(self.mesh, P("lanes")))

    def restore(self, state: LaneState, step: int) -> None:
        """Goes on from a state that was saved after `step` steps."""
        self.state, self.step = self._placed(jax.tree.map(jnp.asarray, state)), step

    def advance(self, to_step: int, on_chunk: Callable[[int, np.ndarray], None] | None = None) -> None:
        """Trains up to a step number. `on_chunk(step, mean losses [R])` runs after every compiled call.

        Raises:
          NonFiniteLossError: a lane's loss or gradient was not finite; its last good parameters are kept.
        """
        self._refuse_failures()  # a run that failed is not carried on as if it had not
        while self.step < to_step:
            block = self.step // BLOCK
            end = min((block + 1) * BLOCK, to_step)
            rows = self._rows_of_block(block)
            if self.on_host:
                losses = self._step_by_step(rows, end)
            else:
                ends = jnp.int32(self.step), jnp.int32(end)
                if self.mesh is None:
                    self.state, losses = many_steps(self.program, self.state, self.lanes, self.data, rows, *ends)
                else:
                    self.state, losses = many_sharded_steps(
                        self.program, self.mesh, self.state, self.lanes, self.data, rows, *ends
                    )
            self.step = end
            if on_chunk is not None:
                on_chunk(self.step, np.asarray(losses))
            self._refuse_failures()

    def _rows_of_block(self, block: int) -> BlockRows:
        if self._block_rows is None or self._block_rows[0] != block:
            self._block_rows = block, block_rows(self.program, self.lanes, self.data, block)
        return self._block_rows[1]

    def _step_by_step(self, rows: BlockRows, end: int) -> Array:
        total = jnp.zeros(())
        for step in range(self.step, end):
            self.state, losses = one_step(self.program, self.state, self.lanes, self.data, rows, jnp.int32(step))
            total = total + losses
        return total / (end - self.step)

    def _refuse_failures(self) -> None:
        failed_at = np.asarray(self.state.failed_at)
        if (failed_at >= 0).any():
            lane = int(np.argmax(failed_at >= 0))
            member, step = int(self.lanes.member[lane]), int(failed_at[lane])
            rate = float(self.lanes.learning_rate[lane])
            raise NonFiniteLossError(
                f"The loss of member {member} was not finite at step {step}; its last good state was kept. Lower the "
                f"learning rate (now {rate:g}), check the scale of the inputs, or train in float32."
            )

    def host_state(self) -> LaneState:
        """A copy of the state in host memory."""
        return jax.tree.map(np.asarray, self.state)

    @property
    def variables(self) -> tuple[Any, Any]:
        return self.state.params, self.state.model_state
