"""The loop of a GPU goes in rounds of several steps; those beyond the end must leave no trace."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.engine import run as engine_run
from nu_ensembles.engine.blocks import block_of
from nu_ensembles.engine.fast.rounds import STEPS_A_ROUND
from nu_ensembles.engine.loop import steps_of_a_block
from nu_ensembles.engine.program import LaneState
from nu_ensembles.engine.run import Run
from nu_ensembles.errors import NonFiniteLossError
from nu_ensembles.methods import Nu

POISONED_ROW = 39


@pytest.fixture(scope="module")
def in_rounds() -> Callable[..., Any]:
    """The loop as a GPU compiles it."""

    def steps_on_a_gpu(*arguments: Any) -> Any:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jax, "default_backend", lambda: "gpu")
            return steps_of_a_block(*arguments)

    return jax.jit(steps_on_a_gpu, static_argnums=0)


@pytest.fixture
def advance(in_rounds, monkeypatch: pytest.MonkeyPatch):
    """`advance(run, rounds, step)`: the state after so many steps."""

    def to(run: Run, rounds: bool, step: int) -> LaneState:
        with monkeypatch.context() as patch:
            if rounds:
                patch.setattr(engine_run, "compiled_loop", lambda *_: in_rounds)
            run.advance(step)
        return run.host_state()

    return to


def test_the_program_in_rounds_is_another_one(assembled, in_rounds) -> None:
    ready = assembled(Nu(0.1))
    run = Run(ready.program, ready.lanes, ready.data)
    arguments = run.state, ready.lanes, ready.data, run._block_of(0), jnp.int32(0), jnp.int32(3)
    plain, in_two_loops = (
        jax.jit(partial(steps, ready.program)).lower(*arguments).as_text() for steps in (steps_of_a_block, in_rounds)
    )
    # A loop of rounds around a loop of steps, and batches of the whole round.
    assert in_two_loops.count("stablehlo.while") > plain.count("stablehlo.while")
    batches = f"tensor<{STEPS_A_ROUND}x3x8x4xf32>"  # 3 lanes, 8 rows of 4 numbers
    assert batches in in_two_loops
    assert batches not in plain


@pytest.fixture
def poisoned(assembled) -> tuple[Callable[[], Run], int]:
    """A run whose member 1 meets an infinite weight, and the step where it does."""
    ready = assembled(Nu(0.1))
    lanes = ready.lanes._replace(n_rows=jnp.array([39, 40, 39], jnp.int32))
    data = ready.data._replace(weight=ready.data.weight.at[POISONED_ROW].set(jnp.inf))
    rows = np.asarray(block_of(ready.program, lanes, data, 0).rows[1])
    return lambda: Run(ready.program, lanes, data), int(np.argmax((rows == POISONED_ROW).any(axis=1)))


def test_a_member_that_fails_stands_still_and_the_others_go_on(poisoned, advance, largest_difference) -> None:
    make, step = poisoned
    states = []
    for rounds in (False, True):
        run = make()
        with pytest.raises(NonFiniteLossError, match=f"member 1 was not finite at step {step}"):
            advance(run, rounds, STEPS_A_ROUND + 5)
        states.append(run.host_state())
    plain, rounds = states
    assert rounds.failed_at.tolist() == [-1, step, -1]
    assert largest_difference(plain.params, rounds.params) < 1e-5
    assert largest_difference(plain.optimiser_state, rounds.optimiser_state) < 1e-5


def test_a_member_that_would_fail_beyond_the_end_has_not_failed(poisoned, advance) -> None:
    make, step = poisoned
    assert step % STEPS_A_ROUND != 0  # or else the round that ends there holds no step beyond
    state = advance(make(), True, step)
    assert state.failed_at.tolist() == [-1, -1, -1]
    assert state.optimiser_state[0].count.tolist() == [step] * 3
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.params))
