"""A group of lanes on its way: start, advance to a step, predict.

The loop over steps runs on the device (`loop.py`), or on the host, one call a step and lane (`fast/host_steps.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.sharding import Mesh, NamedSharding
from jax.sharding import PartitionSpec as P

from nu_ensembles.engine.blocks import Block, LastingOrders, block_of, block_shapes, steps_a_block
from nu_ensembles.engine.fast.compilation import jitted_quickly, leave_out_slow_engines, step_options
from nu_ensembles.engine.fast.host_steps import host_steps, lowered_halves
from nu_ensembles.engine.fast.lane_by_lane import drawn_for_lanes
from nu_ensembles.engine.fast.shared_draws import SharedDraws, drawn_from
from nu_ensembles.engine.fast.threads import side_by_side
from nu_ensembles.engine.finite import state_is_finite
from nu_ensembles.engine.initial import initial_auxiliary, initial_state, initial_state_shapes
from nu_ensembles.engine.loop import compiled_loop
from nu_ensembles.engine.program import Lanes, LaneState, Program, TrainingData, network_inputs
from nu_ensembles.engine.windows import Windows
from nu_ensembles.errors import NonFiniteLossError
from nu_ensembles.models.inspect import read_network
from nu_ensembles.models.seeding import own_failure

# What becomes of a run when a lane's loss is not finite.
Failures = Literal["raise", "mark"]

jitted_is_finite = jitted_quickly(state_is_finite, static_argnames=("custom",))
# Neither this nor `lane_rows` takes the whole program: another method or number of rows shares their compilation.
jitted_initial_state = jitted_quickly(initial_state, static_argnames=("model", "custom", "dtype"))
# A program of its own, so that all methods share the networks' initialisation.
jitted_initial_auxiliary = jitted_quickly(initial_auxiliary, static_argnames=("model", "dtype"))


class Run:
    """Lanes that train together.

    Args:
      on_host: call the steps from Python.
      mesh: devices to spread the lanes over.
      failures: "raise" ends the run when a lane's loss or gradient is not finite; with "mark" that lane stands still,
        `failed_at` tells when it failed, and the others go on.
      shared: where other runs that draw the same look, too; None for a run of its own.

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
        failures: Failures = "raise",
        shared: SharedDraws | None = None,
    ) -> None:
        leave_out_slow_engines()  # which cuDNN wants to know before any convolution, also of a run that is carried on
        self.program, self.on_host, self.mesh, self.failures = program, on_host, mesh, failures
        self.lanes, self.data = lanes, data
        self.step = 0
        self.steps_a_block = steps_a_block(program, data)
        self._block: tuple[int, Block] | None = None
        self._orders = LastingOrders()
        self._unnoticed: dict[int, tuple[int, int]] = {}  # failed lane -> between which steps, where none is known
        if mesh is not None:
            self.lanes = jax.device_put(lanes, NamedSharding(mesh, P("lanes")))
            self.data = jax.device_put(data, NamedSharding(mesh, P()))
        self._windows = None if data.outside is None else Windows(program, self.lanes, self.data, mesh)
        self._state: LaneState | None = None
        self._shared = shared
        self._drawn_from = None if shared is None else drawn_from(program, self.lanes, self.data)

    @property
    def state(self) -> LaneState:
        """The lanes' state, on the device; drawn when it is first asked for."""
        if self._state is None:
            self._state = self._placed(self._initial_state())
        return self._state

    @state.setter
    def state(self, state: LaneState) -> None:
        self._state = state

    @property
    def variables(self) -> tuple[Any, Any]:
        """Parameters and mutable state of the networks, on the device."""
        return self.state.params, self.state.model_state

    @property
    def failed_at(self) -> np.ndarray:
        """int `[R]`, the step at which each lane failed, or -1."""
        return np.asarray(self.state.failed_at)

    def host_state(self) -> LaneState:
        """A copy of the state in host memory."""
        return jax.tree.map(np.asarray, self.state)

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
            self.get_ready()
        self._refuse_failures()  # a run that failed is not carried on as if it had not
        while self.step < to_step:
            number = self.step // self.steps_a_block
            end = min((number + 1) * self.steps_a_block, to_step)
            data = self.data
            if self._windows is None:
                block = self._block_of(number)
            else:
                data, block, last = self._windows.at(self.step)
                end = min(end, last)
            if self.on_host:
                self.state, losses = host_steps(self.program, self.state, self.lanes, data, block, self.step, end)
            else:
                self.state, losses = self._steps_of_a_block(data, block, end)
            first, self.step = self.step, end
            finite = jitted_is_finite(self.state, self.program.optimiser is not None)
            for each in (finite, self.state.failed_at, losses):
                each.copy_to_host_async()
            self._mark_unnoticed(np.asarray(finite), first)
            if on_chunk is not None:
                on_chunk(self.step, np.asarray(losses))
            self._refuse_failures()

    def _steps_of_a_block(self, data: TrainingData, block: Block, end: int) -> tuple[LaneState, Array]:
        """The state after steps up to `end` in one compiled call, and the mean losses `[R]`."""
        steps, static = self._loop
        return steps(*static, self.state, self.lanes, data, block, np.int32(self.step), np.int32(end))

    @property
    def _loop(self) -> tuple[Any, tuple[Any, ...]]:
        """The compiled loop of this program, and its static arguments."""
        network = read_network(self.program.model, self.data.x.shape[1:], self.program.dtype)
        options = step_options(self.program.deterministic, network.n_convolutions)
        loop = compiled_loop(options, self.mesh is not None)
        return loop, (self.program,) if self.mesh is None else (self.program, self.mesh)

    def _block_of(self, number: int) -> Block:
        if self._block is None or self._block[0] != number:
            drawn = (self.program, self.lanes, self.data, number, self._orders)
            self._block = number, self._once(("block", number), lambda: block_of(*drawn))
        return self._block[1]

    def _once(self, what: tuple[Any, ...], draw: Callable[[], Any]) -> Any:
        """What `draw()` gives; drawn once for all runs that draw alike."""
        return draw() if self._shared is None else self._shared.of((*what, self._drawn_from), draw)

    # How a run starts

    def get_ready(self) -> None:
        """Draws the initial state and the first block, and compiles the steps meanwhile: several programs at once.

        Called when they are first needed, JAX would compile them one after another. One of several runs that share
        their draws does so for those with the same program.
        """
        settings: Any = jax.config
        if self.mesh is None and not settings.jax_disable_jit:
            self._once(("ready", jax.tree.structure(self.lanes.method), self.on_host), self._compile_and_draw)

    def _compile_and_draw(self) -> None:
        state = self.state_shapes()
        programs = (
            *(lambda _, steps=each: steps.compile() for each in self._lowered_steps(state)),
            lambda _: self.state,
            lambda _: self._block_of(0) if self._windows is None else self._windows.at(0),
            lambda _: jitted_is_finite.lower(state, self.program.optimiser is not None).compile(),
        )
        side_by_side(programs)

    def _lowered_steps(self, state: LaneState) -> list[jax.stages.Lowered]:
        """The programs of the steps, ready to be compiled; they are those that `advance` calls.

        Args:
          state: the shapes of the lanes' state.
        """
        block = block_shapes(self.program, self.lanes, self.data)
        data = self.data if self._windows is None else self._windows.data_shapes()
        if self.on_host:
            return lowered_halves(self.program, state, self.lanes, data, block)
        steps, static = self._loop
        return [steps.lower(*static, state, self.lanes, data, block, np.int32(0), np.int32(0))]

    def _initial_state(self) -> LaneState:
        program, lanes = self.program, self.lanes
        how = program.model, program.optimiser, program.dtype

        def draw(*of_lanes: Array) -> LaneState:
            return jitted_initial_state(*how, *of_lanes, self._example)

        def drawn() -> LaneState:
            with own_failure():
                return jax.block_until_ready(drawn_for_lanes(draw, lanes.key, lanes.learning_rate, lanes.weight_decay))

        if self._shared is None:
            state = drawn()
        else:  # a copy for each, because a step's program uses its memory again; no rate is in a fresh state
            state = jax.tree.map(jnp.array, self._once(("state",), lambda: jax.tree.map(np.array, drawn())))
        if not lanes.method.has_parameters:
            return state
        auxiliary, auxiliary_state = jitted_initial_auxiliary(*self._of_auxiliary)
        return state._replace(auxiliary=auxiliary, auxiliary_state=auxiliary_state)

    def state_shapes(self) -> LaneState:
        """The shapes of the lanes' state, without drawing it."""
        program = self.program
        how = program.model, program.optimiser, program.dtype
        state = initial_state_shapes(*how, self.lanes.n_lanes, self._example)
        if not self.lanes.method.has_parameters:
            return state
        model, dtype, *arguments = self._of_auxiliary
        auxiliary, auxiliary_state = jax.eval_shape(partial(initial_auxiliary, model, dtype), *arguments)
        return state._replace(auxiliary=auxiliary, auxiliary_state=auxiliary_state)

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

    # What is not finite

    def _refuse_failures(self) -> None:
        failed_at = self.failed_at
        if self.failures == "mark" or not (failed_at >= 0).any():
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

    def _mark_unnoticed(self, finite: np.ndarray, first: int) -> None:
        """Lanes whose state is not finite, bool `[R]`, although no step since `first` noticed, have failed, too."""
        unnoticed = ~finite & (self.failed_at < 0)
        if unnoticed.any():
            self._unnoticed |= {int(lane): (first, self.step - 1) for lane in np.flatnonzero(unnoticed)}
            failed_at = jnp.where(jnp.asarray(unnoticed), self.step - 1, self.state.failed_at)
            self.state = self._placed(self.state._replace(failed_at=failed_at))
