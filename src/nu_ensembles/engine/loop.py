"""The compiled loop over steps: up to a block of them in one call, of all lanes, on one device or several.

The number of steps is traced, so stopping for an evaluation compiles nothing.
"""

from __future__ import annotations

import functools
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array
from jax.sharding import Mesh
from jax.sharding import PartitionSpec as P

from nu_ensembles.backend import Backend
from nu_ensembles.engine.blocks import Block
from nu_ensembles.engine.fast.rounds import steps_in_rounds
from nu_ensembles.engine.program import Lanes, LaneState, Program, TrainingData
from nu_ensembles.engine.step import draw_batch, packed_parameters, train_step, unpacked_parameters
from nu_ensembles.methods import Batch

Options = tuple[tuple[str, Any], ...]


def steps_of_a_block(
    program: Program,
    state: LaneState,
    lanes: Lanes,
    data: TrainingData,
    block: Block,
    start: Array,
    end: Array,
) -> tuple[LaneState, Array]:
    """Steps start … end-1 of a block, of all lanes.

    Returns:
      the state, and the mean losses `[R]`.
    """
    prepared = partial(batch_and_keys, program, lanes, data, block)

    def one_step(
        carry: tuple[LaneState, Array], step: Array, batch: Batch, keys: Array, counts: Array | None = None
    ) -> tuple[LaneState, Array]:
        carried, total = carry
        carried, losses = train_step(program, carried, state.params, lanes, batch, keys, step, counts)
        return carried, total + (losses if counts is None else jnp.where(counts, losses, 0))

    carry = packed_parameters(program, state), jnp.zeros((lanes.n_lanes,), program.dtype)
    if Backend.current().steps_in_rounds:
        carried, total = steps_in_rounds(one_step, prepared, carry, start, end)
    else:
        carried, total = jax.lax.fori_loop(start, end, lambda step, c: one_step(c, step, *prepared(step)), carry)
    return unpacked_parameters(program, carried, state.params), total / (end - start)


def batch_and_keys(
    program: Program, lanes: Lanes, data: TrainingData, block: Block, step: Array
) -> tuple[Batch, Array]:
    """The batches of all lanes in one step, and the keys `[R, 2]` of their networks."""
    draws = block.draws(step)
    return draw_batch(program, lanes, data, draws, step), draws.network_keys


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


@functools.cache
def compiled_loop(options: Options, on_a_mesh: bool) -> Any:
    """The loop, jitted with these options of the compiler. What is static comes first, then the state, whose memory
    is used again.
    """
    chosen: dict[str, Any] = {"compiler_options": dict(options)} if options else {}
    if on_a_mesh:
        return jax.jit(steps_on_a_mesh, static_argnums=(0, 1), donate_argnums=2, **chosen)
    return jax.jit(steps_of_a_block, static_argnums=0, donate_argnums=1, **chosen)
