"""Plans: which one is taken, and what stopping, new numbers and short calls change: nothing."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles import models
from nu_ensembles.backend import BLOCK
from nu_ensembles.engine import plans
from nu_ensembles.engine.fast.compilation import step_options
from nu_ensembles.engine.loop import compiled_loop
from nu_ensembles.engine.plans import Plan, choose_plan
from nu_ensembles.engine.run import Run
from nu_ensembles.engine.settings import Settings
from nu_ensembles.engine.train import LOOK_BACK, Evaluate
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Nu, Standard, method

IMAGES = np.zeros((40, 8, 8, 1), np.float32)


@method()
class Joint(Standard):
    name: ClassVar[str] = "joint toy"
    shape: ClassVar[Any] = "joint"


@method()
class Sequential(Standard):
    name: ClassVar[str] = "sequential toy"
    shape: ClassVar[Any] = "sequential"


def chosen(assembled, requested: str, method: Any = None, **options: Any) -> Plan:
    ready = assembled(method or Standard(), **options)
    return choose_plan(requested, ready.lanes.method, ready.program, ready.data, ready.lanes.n_lanes)


def test_on_one_cpu_perceptrons_train_as_one_program(assembled) -> None:
    assert chosen(assembled, "auto") == Plan("vectorised", 3, on_host=False)


@pytest.mark.parametrize(("cores", "fit", "at_once"), [(1, 9, 1), (2, 9, 2), (8, 9, 3), (8, 2, 2)])
def test_on_a_cpu_convolutions_train_member_after_member_one_on_each_core(
    assembled, monkeypatch: pytest.MonkeyPatch, cores: int, fit: int, at_once: int
) -> None:
    monkeypatch.setattr(plans, "n_cores", lambda: cores)
    monkeypatch.setattr(plans, "lanes_that_fit", lambda *_: fit)
    assert chosen(assembled, "auto", model=models.lenet(3), x=IMAGES) == Plan("sequential", at_once, on_host=True)


def test_on_a_cpu_convolutions_step_on_the_host_under_any_plan(assembled) -> None:
    assert chosen(assembled, "sequential", model=models.lenet(3), x=IMAGES) == Plan("sequential", 1, on_host=True)
    assert chosen(assembled, "vectorised", model=models.lenet(3), x=IMAGES) == Plan("vectorised", 3, on_host=True)


def test_sequential_keeps_one_member_in_memory(assembled) -> None:
    assert chosen(assembled, "sequential") == Plan("sequential", 1, on_host=False)


def test_no_more_lanes_at_once_than_fit_into_memory(assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "lanes_that_fit", lambda *_: 2)
    assert chosen(assembled, "vectorised") == Plan("vectorised", 2, on_host=False)


@pytest.mark.parametrize(
    ("n_lanes", "n_devices", "fit", "at_once", "used"),
    [
        (10, 4, 99, 10, 4),  # 3 + 3 + 3 + 1
        (5, 4, 99, 5, 3),  # two on each of three devices: a fourth would idle
        (2, 4, 99, 2, 2),
        (8, 4, 1, 4, 4),  # two groups of four
    ],
)
def test_lanes_spread_over_no_more_devices_than_they_fill(
    assembled, monkeypatch: pytest.MonkeyPatch, n_lanes: int, n_devices: int, fit: int, at_once: int, used: int
) -> None:
    cpu = jax.devices()[0]
    monkeypatch.setattr(plans, "lanes_that_fit", lambda *_: fit)
    monkeypatch.setattr(jax, "local_devices", lambda: [cpu] * n_devices)
    assert chosen(assembled, "sharded", members=range(n_lanes)) == Plan("sharded", at_once, False, used)
    assert chosen(assembled, "auto", members=range(n_lanes)).name == "sharded"


@pytest.mark.parametrize("requested", ["sequential", "sharded"])
def test_a_joint_method_says_why_its_members_must_train_together(assembled, requested: str) -> None:
    with pytest.raises(InputError, match="'joint toy' has one loss over all members, so they must train together"):
        chosen(assembled, requested, Joint())


@pytest.mark.parametrize("requested", ["vectorised", "sharded"])
def test_a_sequential_method_says_why_its_members_cannot(assembled, requested: str) -> None:
    with pytest.raises(InputError, match="'sequential toy' trains its members one after another"):
        chosen(assembled, requested, Sequential())


def test_an_unknown_plan_suggests_the_nearest() -> None:
    with pytest.raises(InputError, match=r"Unknown plan 'vectorized'. Did you mean 'vectorised'"):
        Settings(plan="vectorized")


def test_stopping_on_the_way_changes_no_bit_and_compiles_nothing(assembled, largest_difference) -> None:
    ready, n_steps = assembled(Nu(0.1)), BLOCK + 30
    straight = ready.train(n_steps)
    compiled = compiled_loop((), False)._cache_size()
    stops = [1, 7, BLOCK - 1, BLOCK, BLOCK + 3]
    stopping = ready.train(n_steps, evaluate=Evaluate(np.asarray(ready.data.x[:5]), stops))
    assert largest_difference(straight.params, stopping.params) == 0
    assert compiled_loop((), False)._cache_size() == compiled
    assert sorted(stopping.evaluations) == stops


def test_a_new_beta_rate_seed_and_number_of_rows_compile_nothing(assembled) -> None:
    ready = assembled(Nu(0.1))
    ready.train(2)
    compiled = compiled_loop((), False)._cache_size()
    assembled(Nu(0.7), seed=5, learning_rate=0.5, weight_decay=0.0).train(3)
    fewer = ready.lanes._replace(n_rows=jnp.array([33, 40, 37], jnp.int32))
    Run(ready.program, fewer, ready.data).advance(2)
    assert compiled_loop((), False)._cache_size() == compiled


def test_a_deterministic_training_has_a_program_of_its_own_and_the_same_bits(assembled, largest_difference) -> None:
    ready = assembled(Nu(0.1))
    plain = Run(ready.program, ready.lanes, ready.data)
    plain.advance(20)
    loops = [compiled_loop(options, False) for options in ((), step_options(deterministic=True, n_convolutions=0))]
    compiled = [steps._cache_size() for steps in loops]
    again = Run(dataclasses.replace(ready.program, deterministic=True), ready.lanes, ready.data)
    again.advance(20)
    assert [steps._cache_size() for steps in loops] == [compiled[0], compiled[1] + 1]
    assert largest_difference(plain.state, again.state) == 0  # on a CPU every training has


def test_the_last_losses_are_means_of_many_steps_though_the_last_call_is_short(assembled) -> None:
    ready, means = assembled(Nu(0.1)), []
    run = Run(ready.program, ready.lanes, ready.data)
    run.advance(BLOCK + 1, lambda _, losses: means.append(losses))
    assert len(means) == 2  # a whole block, and one step
    expected = means[1] / LOOK_BACK + means[0] * (1 - 1 / LOOK_BACK)
    np.testing.assert_allclose(ready.train(BLOCK + 1).losses, expected, rtol=1e-5)
    np.testing.assert_allclose(ready.train(BLOCK).losses, means[0], rtol=1e-5)
