"""A group of lanes on its way: start, advance to a step, predict.

The loop over steps runs on the device, or on the host, one call a step and lane; see `loops.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from threading import Event
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from nu_ensembles.engine.blocks import Block, LastingOrders, block_of, block_shapes, steps_a_block
from nu_ensembles.engine.compilation import (
    FEWER_TRIALS,
    jitted_without_search,
    knows_options,
    leave_out_slow_engines,
)
from nu_ensembles.engine.finite import sound
from nu_ensembles.engine.head_start import head_start
from nu_ensembles.engine.initial import initial_auxiliary, initial_state, initial_state_shapes
from nu_ensembles.engine.loops import (
    deep_networks_sharded_steps,
    deep_networks_steps,
    first_half,
    many_sharded_steps,
    many_steps,
    reproducible_sharded_steps,
    reproducible_steps,
    second_half,
)
from nu_ensembles.engine.program import Lanes, LaneState, Program, TrainingData, network_inputs
from nu_ensembles.engine.side_by_side import beside, side_by_side
from nu_ensembles.errors import NonFiniteLossError
from nu_ensembles.models.inspect import n_convolutions

# Convolutions of a deep network: LeNet has two, the smallest wide ResNet nine.
DEEP = 8
jitted_sound = jitted_without_search(sound, static_argnames=("custom",))
# Neither this nor `lane_rows` takes the whole program: another method or number of rows shares their compilation.
jitted_initial_state = jitted_without_search(initial_state, static_argnames=("model", "custom", "dtype"))
# A program of its own, so that all methods share the networks' initialisation.
jitted_initial_auxiliary = jitted_without_search(initial_auxiliary, static_argnames=("model", "dtype"))


class Run:
    """Lanes that train together.

    Attributes:
      step: how many steps they have done.
      steps_a_block: how many a compiled call does at most.
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
        leave_out_slow_engines()  # which cuDNN wants to know before any convolution, also of a run that is carried on
        self.program, self.on_host, self.mesh = program, on_host, mesh
        self.lanes, self.data = lanes, data
        self.step = 0
        self.steps_a_block = steps_a_block(program, data)
        self._block: tuple[int, Block] | None = None
        self._orders = LastingOrders()
        self._unnoticed: dict[int, tuple[int, int]] = {}  # failed lane -> between which steps, where none is known
        if mesh is not None:
            self.lanes = jax.device_put(lanes, NamedSharding(mesh, P("lanes")))
            self.data = jax.device_put(data, NamedSharding(mesh, P()))
        self._state: LaneState | None = None

    @property
    def state(self) -> LaneState:
        """The lanes' state, on the device; drawn when it is first asked for."""
        if self._state is None:
            self._state = self._placed(self._initial_state())
        return self._state

    @state.setter
    def state(self, state: LaneState) -> None:
        self._state = state

    def _initial_state(self) -> LaneState:
        program, lanes = self.program, self.lanes
        hyper = lanes.key, lanes.learning_rate, lanes.weight_decay
        state = jitted_initial_state(program.model, program.optimiser, program.dtype, *hyper, self._example)
        auxiliary = self._auxiliary_shapes()
        # Most methods have none: their empty trees need no program.
        if jax.tree.leaves(auxiliary):
            auxiliary = jitted_initial_auxiliary(*self._of_auxiliary)
        return state._replace(auxiliary=auxiliary[0], auxiliary_state=auxiliary[1])

    def _state_shapes(self) -> LaneState:
        program, auxiliary = self.program, self._auxiliary_shapes()
        how = program.model, program.optimiser, program.dtype
        state = initial_state_shapes(*how, self.lanes.n_lanes, self._example)
        return state._replace(auxiliary=auxiliary[0], auxiliary_state=auxiliary[1])

    def _auxiliary_shapes(self) -> tuple[Any, Any]:
        model, dtype, *arguments = self._of_auxiliary
        return jax.eval_shape(partial(initial_auxiliary, model, dtype), *arguments)

    @property
    def _of_auxiliary(self) -> tuple[Any, ...]:
        """The arguments of `initial_auxiliary`."""
        return self.program.model, self.program.dtype, self.lanes.key, self.lanes.method, self._example

    @property
    def _example(self) -> Any:
        """A row as the network takes it."""
        return network_inputs(np.zeros((1, *self.data.x.shape[1:]), self.data.x.dtype), self.program.dtype)

    def _placed(self, state: LaneState) -> LaneState:
        return state if self.mesh is None else jax.device_put(state, NamedSharding(self.mesh, P("lanes")))

    def restore(self, state: LaneState, step: int) -> None:
        """Goes on from a state that was saved after `step` steps."""
        self.state, self.step = self._placed(jax.tree.map(jnp.asarray, state)), step

    def advance(self, to_step: int, on_chunk: Callable[[int, np.ndarray], None] | None = None) -> None:
        """Trains up to a step number. `on_chunk(step, mean losses [R])` runs after every compiled call.

        Raises:
          NonFiniteLossError: a lane's loss or gradient was not finite; its last good parameters are kept. A step
            looks at parts of large gradients only; what it missed is found in the parameters or the optimiser's state
            after the compiled call.
        """
        if self._state is None and to_step > 0:
            self._prepare()
        self._refuse_failures()  # a run that failed is not carried on as if it had not
        while self.step < to_step:
            number = self.step // self.steps_a_block
            end = min((number + 1) * self.steps_a_block, to_step)
            block = self._block_of(number)
            if self.on_host:
                losses = self._step_by_step(block, end)
            else:
                following = number + 1 if end < to_step else None
                self.state, losses = self._steps_of_a_block(block, end, following)
            first, self.step = self.step, end
            fine = jitted_sound(self.state, self.program.optimiser is not None)
            for each in (fine, self.state.failed_at, losses):
                each.copy_to_host_async()
            self._mark_unsound(np.asarray(fine), first)
            if on_chunk is not None:
                on_chunk(self.step, np.asarray(losses))
            self._refuse_failures()

    def _steps_of_a_block(self, block: Block, end: int, following: int | None) -> tuple[LaneState, Array]:
        """The state after steps up to `end` in one compiled call, and the mean losses `[R]`.

        The call returns when the steps are nearly done: the host looks at the end of the loop. Another thread draws the
        `following` block meanwhile.
        """
        steps, static = self._loop
        arguments = self.state, self.lanes, self.data, block, np.int32(self.step), np.int32(end)
        with beside(lambda: self._block_of(following)) if following is not None else nullcontext():
            return steps(*static, *arguments)

    @property
    def _loop(self) -> tuple[Any, tuple[Any, ...]]:
        """The compiled loop of this program, and its static arguments."""
        if self.program.deterministic:
            on_one, on_many = reproducible_steps, reproducible_sharded_steps
        elif self._is_deep and knows_options(*FEWER_TRIALS):
            on_one, on_many = deep_networks_steps, deep_networks_sharded_steps
        else:
            on_one, on_many = many_steps, many_sharded_steps
        return (on_one, (self.program,)) if self.mesh is None else (on_many, (self.program, self.mesh))

    @property
    def _is_deep(self) -> bool:
        """Whether the network has so many layers that what a GPU's compiler does with them takes long."""
        if jax.default_backend() == "cpu":
            return False
        return n_convolutions(self.program.model, (1, *self.data.x.shape[1:]), self.program.dtype) >= DEEP

    def _prepare(self) -> None:
        """Draws the initial state and the first block, and compiles the steps beside: several programs at once.

        Called when they are first needed, JAX would compile them one after another.
        """
        settings: Any = jax.config
        if self.mesh is not None or settings.jax_disable_jit:
            return
        state = self._state_shapes()
        searches = self._is_deep and not self.program.deterministic
        with head_start() if searches else nullcontext():
            steps = self._lowered_steps(state)
            programs = (
                *(lambda _, steps=each: steps.compile() for each in steps),
                lambda _: self.state,
                lambda _: self._block_of(0),
                lambda _: jitted_sound.lower(state, self.program.optimiser is not None).compile(),
            )
            side_by_side(programs)

    def _lowered_steps(self, state: LaneState) -> list[jax.stages.Lowered]:
        """The programs of the steps, ready to be compiled; they are those that `advance` calls.

        Args:
          state: the shapes of the lanes' state.
        """
        block = block_shapes(self.program, self.lanes, self.data)
        start = np.int32(0)
        if not self.on_host:
            steps, static = self._loop
            return [steps.lower(*static, state, self.lanes, self.data, block, start, start)]
        lanes = self.lanes
        if self._in_threads:
            state, lanes, block = jax.eval_shape(
                lambda *leaves: jax.tree.map(lambda leaf: leaf[:1], leaves), state, lanes, block
            )
        first = first_half.lower(self.program, state, lanes, self.data, block, start)
        return [first, second_half.lower(self.program, state, first.out_info, lanes, start)]

    @property
    def _in_threads(self) -> bool:
        """Whether the lanes step one by one, each in a thread."""
        return self.on_host and self.lanes.n_lanes > 1 and self.lanes.method.shape != "joint"

    def _block_of(self, number: int) -> Block:
        if self._block is None or self._block[0] != number:
            self._block = number, block_of(self.program, self.lanes, self.data, number, self._orders)
        return self._block[1]

    def _step_by_step(self, block: Block, end: int) -> Array:
        """Steps up to `end`, called from here; the mean losses `[R]`."""
        if not self._in_threads:
            self.state, total = self._stepped(self.state, self.lanes, block, end, None)
            return total / (end - self.step)

        def one_lane(lane: int) -> Callable[[Event], tuple[LaneState, Array]]:
            state, own, drawn = jax.tree.map(lambda leaf: leaf[lane : lane + 1], (self.state, self.lanes, block))
            return lambda stopped: self._stepped(state, own, drawn, end, stopped)

        apart = side_by_side([one_lane(lane) for lane in range(self.lanes.n_lanes)])
        self.state, total = jax.tree.map(lambda *parts: jnp.concatenate(parts), *apart)
        return total / (end - self.step)

    def _stepped(
        self, state: LaneState, lanes: Lanes, block: Block, end: int, stopped: Event | None
    ) -> tuple[LaneState, Array]:
        """The state of lanes after steps up to `end`, and the sum of their losses `[R]`."""
        total = jnp.zeros((lanes.n_lanes,), self.program.dtype)
        for step in range(self.step, end):
            if stopped is not None and stopped.is_set():
                break
            number = np.int32(step)
            forward = first_half(self.program, state, lanes, self.data, block, number)
            state, losses = second_half(self.program, state, forward, lanes, number)
            del forward  # its memory is for the next
            total = total + losses
        return state, total

    def _refuse_failures(self) -> None:
        failed_at = np.asarray(self.state.failed_at)
        if not (failed_at >= 0).any():
            return
        lane = int(np.argmax(failed_at >= 0))
        what, when = "loss", f"at step {failed_at[lane]}; its last good state was kept"
        if lane in self._unnoticed:
            first, last = self._unnoticed[lane]
            what = "optimiser's state"
            when = f"somewhere in steps {first} to {last}; its last good state was kept in part only"
        member, rate = int(self.lanes.member[lane]), float(self.lanes.learning_rate[lane])
        raise NonFiniteLossError(
            f"The {what} of member {member} was not finite {when}. Lower the learning rate (now {rate:g}), check the "
            "scale of the inputs, or train in float32."
        )

    def _mark_unsound(self, fine: np.ndarray, first: int) -> None:
        """Lanes whose state is not `fine`, bool `[R]`, although no step since `first` noticed, have failed, too."""
        unnoticed = ~fine & (np.asarray(self.state.failed_at) < 0)
        if unnoticed.any():
            self._unnoticed |= {int(lane): (first, self.step - 1) for lane in np.flatnonzero(unnoticed)}
            failed_at = jnp.where(jnp.asarray(unnoticed), self.step - 1, self.state.failed_at)
            self.state = self._placed(self.state._replace(failed_at=failed_at))

    def host_state(self) -> LaneState:
        """A copy of the state in host memory."""
        return jax.tree.map(np.asarray, self.state)

    @property
    def variables(self) -> tuple[Any, Any]:
        return self.state.params, self.state.model_state
