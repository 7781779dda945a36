"""When a member diverges or memory runs out: what is said, what is kept, who is unharmed."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.engine import train as engine_train
from nu_ensembles.engine.assembly import Assembly
from nu_ensembles.engine.blocks import block_of
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.engine.finite import all_finite, state_is_finite
from nu_ensembles.engine.program import LaneState
from nu_ensembles.engine.run import Run
from nu_ensembles.errors import NonFiniteLossError
from nu_ensembles.methods import Nu

N_STEPS = 12
POISONED_ROW = 39


@pytest.fixture
def poisoned(assembled):
    """Member 1 alone has the last row, whose weight is infinite; returns the training and the step that draws it."""
    ready = assembled(Nu(0.1))
    lanes = ready.lanes._replace(n_rows=jnp.array([39, 40, 39], jnp.int32))
    data = ready.data._replace(weight=ready.data.weight.at[POISONED_ROW].set(jnp.inf))
    drawn = block_of(ready.program, lanes, data, 0).rows
    step = int(np.argmax((np.asarray(drawn[1]) == POISONED_ROW).any(axis=1)))
    assert 0 < step < N_STEPS
    return ready, lanes, data, step


def test_the_error_names_member_and_step_and_says_what_to_do(poisoned) -> None:
    ready, lanes, data, step = poisoned
    with pytest.raises(
        NonFiniteLossError, match=f"member 1 was not finite at step {step}; its last good state was kept"
    ):
        engine_train.train(Assembly(ready.program, lanes, data), N_STEPS)
    with pytest.raises(NonFiniteLossError, match=r"Lower the learning rate \(now 0\.01\)"):
        engine_train.train(Assembly(ready.program, lanes, data), N_STEPS)


def test_the_checkpoint_keeps_the_last_good_state_and_the_other_members_are_unharmed(
    poisoned, tmp_path: Path, largest_difference
) -> None:
    ready, lanes, data, step = poisoned
    with pytest.raises(NonFiniteLossError):
        engine_train.train(
            Assembly(ready.program, lanes, data), N_STEPS, checkpoints=CheckpointFolder(tmp_path, every_seconds=1e9)
        )
    healthy = data._replace(weight=jnp.ones_like(data.weight))
    run = Run(ready.program, lanes, healthy)
    (stored,) = tmp_path.glob("*.safetensors")
    from nu_ensembles import storage

    arrays = storage.load_arrays(stored, None)
    kept = storage.unflatten_like({name.removeprefix("current/"): value for name, value in arrays.items()}, run.state)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(kept))
    assert kept.failed_at.tolist() == [-1, step, -1]
    run.advance(step)
    assert largest_difference(*(jax.tree.map(lambda a: a[1], s.params) for s in (kept, run.state))) == 0
    run.advance(N_STEPS)
    for member in (0, 2):
        assert largest_difference(*(jax.tree.map(lambda a, m=member: a[m], s.params) for s in (kept, run.state))) == 0


def test_a_failed_run_is_not_resumed_as_if_it_had_finished(poisoned, tmp_path: Path) -> None:
    ready, lanes, data, step = poisoned
    for resume in (False, True, True):
        folder = CheckpointFolder(tmp_path, every_seconds=0, resume=resume)
        with pytest.raises(NonFiniteLossError, match=f"member 1 was not finite at step {step}"):
            engine_train.train(Assembly(ready.program, lanes, data), N_STEPS, checkpoints=folder)


def test_a_rate_that_overflows_leaves_finite_parameters(assembled) -> None:
    # The loss and the gradient of step 0 are finite; only what its update would make of the parameters is not.
    ready = assembled(Nu(0.1), learning_rate=3e38)
    run = Run(ready.program, ready.lanes, ready.data)
    with pytest.raises(NonFiniteLossError, match="member 0 was not finite at step 1"):
        run.advance(5)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(run.state.params))


def spoil(run: Run, lane: int, **moment: float) -> None:
    """Puts a number into all of a lane's first or second moments (mu, nu), which no step looks at."""
    adam, *others = run.state.optimiser_state
    for name, value in moment.items():
        spoilt = jax.tree.map(lambda leaf, value=value: leaf.at[lane].set(value), getattr(adam, name))
        adam = adam._replace(**{name: spoilt})
    run.state = run.state._replace(optimiser_state=(adam, *others))


def test_what_a_step_does_not_look_at_is_found_after_the_compiled_call(assembled) -> None:
    ready = assembled(Nu(0.1))
    run = Run(ready.program, ready.lanes, ready.data)
    run.advance(3)
    spoil(run, lane=2, nu=jnp.inf)  # from now on its parameters stand still, and its losses look healthy
    failed_when_saved = []
    with pytest.raises(
        NonFiniteLossError,
        match=r"optimiser's state of member 2 was not finite somewhere in steps 3 to 9; .* learning rate \(now 0\.01\)",
    ):
        run.advance(10, lambda step, losses: failed_when_saved.append(run.state.failed_at.tolist()))
    # A checkpoint that is written then knows of it, and the run is not carried on.
    assert failed_when_saved == [[-1, -1, 9]]
    resumed = Run(ready.program, ready.lanes, ready.data)
    resumed.restore(run.host_state(), run.step)
    with pytest.raises(NonFiniteLossError, match="member 2 was not finite at step 9"):
        resumed.advance(10)


def test_a_gradient_that_is_not_finite_shows_in_the_rows_of_a_large_kernel_that_are_looked_at() -> None:
    x, weights = jnp.ones((2, 5, 300)), jnp.zeros((2, 300, 100))  # two lanes, five rows; more numbers than `LARGE`
    back = jnp.zeros((2, 5, 100)).at[1, 3, 7].set(jnp.inf)
    of_weights = jnp.einsum("rbi,rbo->rio", x.at[:, :, 0].set(0.0), back)
    found = all_finite({"large": of_weights, "small": weights[:, 0]})
    assert found.tolist() == [True, False]


def test_the_loop_on_the_host_looks_at_everything_too(assembled) -> None:
    ready = assembled(Nu(0.1))
    run = Run(ready.program, ready.lanes, ready.data, on_host=True)
    spoil(run, lane=0, mu=jnp.nan)
    with pytest.raises(NonFiniteLossError, match="state of member 0 was not finite somewhere in steps 0 to 1"):
        run.advance(2)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(run.state.params))


def test_an_optimiser_that_the_user_brings_may_hold_infinities_but_no_nan() -> None:
    lanes = jnp.zeros((2, 3))
    state = LaneState({"w": lanes}, (), {"best": jnp.array([jnp.inf, jnp.nan])}, jnp.array([-1, -1]))
    assert state_is_finite(state, custom=True).tolist() == [True, False]
    assert state_is_finite(state, custom=False).tolist() == [False, False]
    overflown = state._replace(params={"w": lanes.at[0, 1].set(-jnp.inf)}, optimiser_state={"n": jnp.array([1, 2])})
    assert state_is_finite(overflown, custom=True).tolist() == [False, True]


class _SmallDevice(Run):
    """A device with room for one lane."""

    def __init__(self, program, lanes, data, **options) -> None:
        if lanes.n_lanes > 1:
            raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 1 bytes.")
        super().__init__(program, lanes, data, **options)


def test_when_memory_runs_out_half_as_many_members_are_tried(
    assembled, largest_difference, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = assembled(Nu(0.1))
    expected = ready.train(5, plan="sequential")
    monkeypatch.setattr(engine_train, "Run", _SmallDevice)
    with pytest.warns(UserWarning, match="ran out of memory with 3 members at once; trying 1"):
        found = ready.train(5)
    assert found.plan.lanes_at_once == 1
    assert largest_difference(found.params, expected.params) == 0


def test_other_errors_of_the_device_are_not_swallowed(assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_, **__):
        raise jax.errors.JaxRuntimeError("INTERNAL: the device fell off")

    monkeypatch.setattr(engine_train, "Run", broken)
    with pytest.raises(jax.errors.JaxRuntimeError, match="fell off"):
        assembled(Nu(0.1)).train(5)
