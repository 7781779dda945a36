"""The compiled loops over steps.

On the device one call does up to a block of steps. Their number is traced, so stopping for an evaluation compiles
nothing. On a GPU the loop goes in rounds of several steps. On a CPU convolutions inside a compiled loop are some thirty
times slower, so the loop is the host's, and a step is two programs: what the forward pass leaves behind are then many
arrays of a few megabytes, whose memory the C library keeps and hands out again. As one program it would be a single
block of temporary memory, which the system takes back after every step and hands out anew, page by page, in the next.
"""

from __future__ import annotations

import dataclasses
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from nu_ensembles.engine.blocks import Block
from nu_ensembles.engine.compilation import FEWER_TRIALS
from nu_ensembles.engine.program import Lanes, LaneState, Program, TrainingData
from nu_ensembles.engine.step import (
    Forward,
    backward_pass,
    draw_batch,
    forward_pass,
    packed_parameters,
    train_step,
    unpacked_parameters,
)
from nu_ensembles.methods import Batch

# What makes XLA give the same bits on every run on a GPU: no kernel that adds up in changing order, and none that is
# chosen by timing it. A CPU does so anyway.
SAME_BITS = {"xla_gpu_deterministic_ops": True}
# Steps between two looks at the end of the loop, which on a GPU is a message to the host and its answer. The last
# round may hold steps beyond the end; they change nothing.
STEPS_A_ROUND = 16
# Batches of a round are prepared together if they are no larger than this.
PREPARED_BYTES = 1 << 28


def steps_of_a_block(
    program: Program,
    state: LaneState,
    lanes: Lanes,
    data: TrainingData,
    block: Block,
    start: Array,
    end: Array,
) -> tuple[LaneState, Array]:
    """Steps start … end-1 of a block, of all lanes, in one compiled loop.

    Returns:
      the state, and the mean losses `[R]`.
    """

    prepared = partial(_prepared, program, lanes, data, block)
    carried = packed_parameters(program, state)
    total = jnp.zeros((lanes.n_lanes,), program.dtype)
    if jax.default_backend() == "cpu":

        def one_step(step: Array, carry: tuple[LaneState, Array]) -> tuple[LaneState, Array]:
            carried, total = carry
            carried, losses = train_step(program, carried, state.params, lanes, *prepared(step), step)
            return carried, total + losses

        carried, total = jax.lax.fori_loop(start, end, one_step, (carried, total))
    else:
        # Batches of a whole round at once: they take as many small programs as those of one step.
        at_once = STEPS_A_ROUND * _n_bytes(jax.eval_shape(prepared, start)) <= PREPARED_BYTES

        def one_round(number: Array, carry: tuple[LaneState, Array]) -> tuple[LaneState, Array]:
            first = start + number * STEPS_A_ROUND
            of_round = jax.vmap(prepared)(first + jnp.arange(STEPS_A_ROUND)) if at_once else None

            def one_step(i: Array, carry: tuple[LaneState, Array]) -> tuple[LaneState, Array]:
                (carried, total), step = carry, first + i
                counts = step < end
                batch, keys = prepared(step) if of_round is None else jax.tree.map(lambda leaf: leaf[i], of_round)
                carried, losses = train_step(program, carried, state.params, lanes, batch, keys, step, counts)
                return carried, total + jnp.where(counts, losses, 0)

            return jax.lax.fori_loop(0, STEPS_A_ROUND, one_step, carry)

        n_rounds = -(-(end - start) // STEPS_A_ROUND)
        carried, total = jax.lax.fori_loop(0, n_rounds, one_round, (carried, total))
    return unpacked_parameters(program, carried, state.params), total / (end - start)


def _prepared(program: Program, lanes: Lanes, data: TrainingData, block: Block, step: Array) -> tuple[Batch, Array]:
    """The batches of all lanes in one step, and the keys `[R]` of their networks."""
    draws = block.draws(step)
    return draw_batch(program, lanes, data, draws, step), draws.network_keys


def _n_bytes(shapes: Any) -> int:
    leaves = [leaf for leaf in jax.tree.leaves(shapes) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)


def steps_on_a_mesh(program: Program, mesh: Mesh, *arguments: Any) -> tuple[LaneState, Array]:
    """`steps_of_a_block` with the lanes spread over devices; nothing is exchanged between them."""
    spread, everywhere = P("lanes"), P()
    return jax.shard_map(
        partial(steps_of_a_block, program),
        mesh=mesh,
        in_specs=(spread, spread, everywhere, spread, everywhere, everywhere),
        out_specs=spread,
        check_vma=False,
    )(*arguments)


# What is static comes first, then the state, whose memory is used again.
_jitted = partial(jax.jit, static_argnums=0, donate_argnums=1)
_jitted_on_a_mesh = partial(jax.jit, static_argnums=(0, 1), donate_argnums=2)
many_steps = _jitted(steps_of_a_block)
many_sharded_steps = _jitted_on_a_mesh(steps_on_a_mesh)
deep_networks_steps = _jitted(steps_of_a_block, compiler_options=FEWER_TRIALS)
deep_networks_sharded_steps = _jitted_on_a_mesh(steps_on_a_mesh, compiler_options=FEWER_TRIALS)
reproducible_steps = _jitted(steps_of_a_block, compiler_options=SAME_BITS)
reproducible_sharded_steps = _jitted_on_a_mesh(steps_on_a_mesh, compiler_options=SAME_BITS)


@partial(jax.jit, static_argnums=0)
def first_half(
    program: Program, state: LaneState, lanes: Lanes, data: TrainingData, block: Block, step: Array
) -> Forward:
    """The forward pass of one step of all lanes, for a loop on the host."""
    forward = forward_pass(program, state, lanes, *_prepared(program, lanes, data, block, step))
    # As results, kernels that the backward pass wants would be copies.
    places = {id(leaf): place for place, leaf in enumerate(jax.tree.leaves(state))}
    return jax.tree.map(lambda leaf: OfState(places[id(leaf)]) if id(leaf) in places else leaf, forward)


@_jitted
def second_half(
    program: Program, state: LaneState, forward: Forward, lanes: Lanes, step: Array
) -> tuple[LaneState, Array]:
    """The rest of that step; the state and the losses `[R]`."""
    leaves = jax.tree.leaves(state)
    forward = jax.tree.map(
        lambda leaf: leaves[leaf.place] if isinstance(leaf, OfState) else leaf,
        forward,
        is_leaf=lambda leaf: isinstance(leaf, OfState),
    )
    carried = backward_pass(program, packed_parameters(program, state), lanes, forward, step)
    return unpacked_parameters(program, carried, state.params), forward.losses


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True)
class OfState:
    """Stands between the halves of a step for a leaf of the state, which both of them have."""

    place: int
