"""Steps that Python calls one by one, for convolutions on a CPU, where a compiled loop is some thirty times slower.

A step is two programs: what the forward pass leaves behind are then many arrays of a few megabytes, whose memory the C
library keeps and hands out again. As one program it would be a single block of temporary memory, which the system takes
back after every step and hands out anew, page by page, in the next. Lanes that never meet step each in a thread.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import partial
from threading import Event

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.engine.blocks import Block
from nu_ensembles.engine.fast.threads import side_by_side
from nu_ensembles.engine.loop import batch_and_keys
from nu_ensembles.engine.program import Lanes, LaneState, Program, TrainingData
from nu_ensembles.engine.step import ForwardPass, backward_pass, forward_pass, packed_parameters, unpacked_parameters


def host_steps(
    program: Program, state: LaneState, lanes: Lanes, data: TrainingData, block: Block, start: int, end: int
) -> tuple[LaneState, Array]:
    """The state after steps start … end-1, and the mean losses `[R]`."""

    def stepped(state: LaneState, lanes: Lanes, block: Block, stopped: Event | None) -> tuple[LaneState, Array]:
        total = jnp.zeros((lanes.n_lanes,), program.dtype)
        for step in range(start, end):
            if stopped is not None and stopped.is_set():
                break
            number = np.int32(step)
            forward = first_half(program, state, lanes, data, block, number)
            state, losses = second_half(program, state, forward, lanes, number)
            del forward  # its memory is for the next
            total = total + losses
        return state, total

    if not in_threads(lanes):
        state, total = stepped(state, lanes, block, None)
        return state, total / (end - start)

    def one_lane(lane: int) -> Callable[[Event], tuple[LaneState, Array]]:
        own_state, own_lanes, own_block = jax.tree.map(lambda leaf: leaf[lane : lane + 1], (state, lanes, block))
        return lambda stopped: stepped(own_state, own_lanes, own_block, stopped)

    apart = side_by_side([one_lane(lane) for lane in range(lanes.n_lanes)])
    state, total = jax.tree.map(lambda *parts: jnp.concatenate(parts), *apart)
    return state, total / (end - start)


def in_threads(lanes: Lanes) -> bool:
    """Whether the lanes step one by one, each in a thread."""
    return lanes.n_lanes > 1 and not lanes.method.is_joint


def lowered_halves(
    program: Program, state: LaneState, lanes: Lanes, data: TrainingData, block: Block
) -> list[jax.stages.Lowered]:
    """The two programs that `host_steps` calls, ready to be compiled; state and block: their shapes."""
    if in_threads(lanes):
        state, lanes, block = jax.eval_shape(
            lambda *leaves: jax.tree.map(lambda leaf: leaf[:1], leaves), state, lanes, block
        )
    first = first_half.lower(program, state, lanes, data, block, np.int32(0))
    return [first, second_half.lower(program, state, first.out_info, lanes, np.int32(0))]


@partial(jax.jit, static_argnums=0)
def first_half(
    program: Program, state: LaneState, lanes: Lanes, data: TrainingData, block: Block, step: Array
) -> ForwardPass:
    """The forward pass of one step of all lanes."""
    forward = forward_pass(program, state, lanes, *batch_and_keys(program, lanes, data, block, step))
    # As results, kernels that the backward pass wants would be copies.
    places = {id(leaf): place for place, leaf in enumerate(jax.tree.leaves(state))}
    return jax.tree.map(lambda leaf: OfState(places[id(leaf)]) if id(leaf) in places else leaf, forward)


@partial(jax.jit, static_argnums=0, donate_argnums=1)
def second_half(
    program: Program, state: LaneState, forward: ForwardPass, lanes: Lanes, step: Array
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
