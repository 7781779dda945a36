"""Every fast way trains the networks of the plain reference: ten steps, in float64 within 1e-8, in float32 within 1e-5.

Members spread over devices need a process of their own: `test_sharded.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from trainings import BARS, N_STEPS, NETWORKS, SGD, TABLE, Training, by_the_book, trainings

from nu_ensembles import backend, models
from nu_ensembles.engine import blocks, loop, plans
from nu_ensembles.engine import run as engine_run
from nu_ensembles.engine.batches import batch_rows
from nu_ensembles.engine.fast import host_steps, packing, rounds
from nu_ensembles.engine.fast.compilation import ENGINE_RULES
from nu_ensembles.engine.plans import Plan
from nu_ensembles.engine.pool import LanePool
from nu_ensembles.engine.predict import lane_probabilities
from nu_ensembles.engine.reference import train_by_the_book
from nu_ensembles.engine.run import Run
from nu_ensembles.engine.settings import Settings
from nu_ensembles.engine.step import ORDER, UNLABELED_ORDER, lane_key
from nu_ensembles.engine.train import train
from nu_ensembles.methods import Nu
from nu_ensembles.models.inspect import Reading
from nu_ensembles.problem import prepare, random_key
from nu_ensembles.training.job import make_job
from nu_ensembles.tuning.folds import held_out_of, stratified_folds
from nu_ensembles.tuning.trial import Trial


@pytest.fixture(autouse=True)
def in_its_dtype(request: pytest.FixtureRequest) -> Iterator[None]:
    training = request.getfixturevalue("training") if "training" in request.fixturenames else None
    with jax.enable_x64(training is None or training.dtype == "float64"):
        if training is not None:
            by_the_book(training)  # before anything is replaced
        yield


@pytest.fixture
def counted(monkeypatch: pytest.MonkeyPatch) -> Callable[[Any, str], list[Any]]:
    """`counted(module, name)`: the calls of a function from now on."""

    def watch(module: Any, name: str) -> list[Any]:
        calls, function = [], getattr(module, name)

        def noted(*arguments: Any) -> Any:
            calls.append(arguments)
            return function(*arguments)

        monkeypatch.setattr(module, name, noted)
        return calls

    return watch


@pytest.fixture
def on_a_cpu_that(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`on_a_cpu_that(steps_in_rounds=True)`: a CPU, but for what is said of it."""
    return lambda **but: monkeypatch.setattr(backend, "CPU", dataclasses.replace(backend.CPU, **but))


# The reference itself


def weighted_loss(w: np.ndarray, x: Any, y: Any, share: np.ndarray) -> tuple[float, np.ndarray]:
    """Of softmax regression, `-sum share log p(y)`, and its gradient; the last row of `w` is the bias."""
    with_one = np.concatenate([x, np.ones((len(x), 1))], axis=1)
    p = np.exp(with_one @ w)
    p /= p.sum(axis=1, keepdims=True)
    return -share @ np.log(p[np.arange(len(x)), y]), with_one.T @ (share[:, None] * (p - np.eye(3)[y]))


def test_the_reference_is_adamw_on_the_gradient_of_equation_5() -> None:
    ready = Training("perceptron", "nu", "float64").assembled(models.mlp(3, hidden=(), dtype="float64"))
    beta, rate, decay, n_steps = np.float32(0.1), 0.01, 0.1, 3
    x, y, weight, u = TABLE
    assert u is not None
    labels = np.asarray(ready.data.targets)
    start = Run(*ready).host_state().params["params"]["Dense_0"]
    params, _, losses = train_by_the_book(ready, n_steps)
    found = params["params"]["Dense_0"]
    for k, key in enumerate(ready.lanes.key):
        w = np.concatenate([start["kernel"][k], start["bias"][k][None]])
        mean, square = np.zeros_like(w), np.zeros_like(w)
        rows, u_rows = (
            batch_rows(lane_key(key, use), jnp.int32(0), n_steps, 8, jnp.int32(n), 64, 32)
            for use, n in ((ORDER, 40), (UNLABELED_ORDER, 50))
        )
        for t, (row, u_row) in enumerate(zip(np.asarray(rows), np.asarray(u_rows), strict=True), start=1):
            fit, of_fit = weighted_loss(w, x[row], y[row], weight[row] / 8)
            noise, of_noise = weighted_loss(w, u[u_row], labels[k, u_row], np.full(8, beta / 8))
            assert losses[k, t - 1] == pytest.approx(fit + noise, abs=1e-12)
            gradient = of_fit + of_noise
            mean, square = 0.9 * mean + 0.1 * gradient, 0.999 * square + 0.001 * gradient**2
            w = w - rate * (mean / (1 - 0.9**t) / (np.sqrt(square / (1 - 0.999**t)) + 1e-8) + decay * w)
        np.testing.assert_allclose(np.concatenate([found["kernel"][k], found["bias"][k][None]]), w, atol=1e-10)


# Plans


@trainings(NETWORKS)
def test_all_members_in_one_program(training: Training) -> None:
    trained = train(training.assembled(), N_STEPS, plan="vectorised")
    assert (trained.plan.name, trained.plan.lanes_at_once) == ("vectorised", len(trained.losses))
    training.assert_by_the_book(trained)


@trainings(NETWORKS, slow=["perceptron"])
def test_one_member_after_another(training: Training) -> None:
    trained = train(training.assembled(), N_STEPS, plan="sequential")
    assert (trained.plan.name, trained.plan.lanes_at_once) == ("sequential", 1)
    training.assert_by_the_book(trained)


@trainings(["remembering"])
def test_as_many_members_at_once_as_fit_into_memory(training: Training, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "lanes_that_fit", lambda *_: 2)
    trained = train(training.assembled(), N_STEPS, plan="vectorised")
    assert trained.plan.lanes_at_once == 2
    training.assert_by_the_book(trained)


@trainings(["perceptron"], "pac2", "dice")
def test_members_with_one_loss(training: Training) -> None:
    training.assert_by_the_book(train(training.assembled(), N_STEPS))


@trainings(["remembering"], "pac2")
def test_members_with_one_loss_and_with_dropout_and_state(training: Training) -> None:
    training.assert_by_the_book(train(training.assembled(), N_STEPS))


@trainings(["perceptron", "remembering"], "agree to disagree", slow=["remembering"])
def test_members_that_see_what_earlier_ones_predict(training: Training) -> None:
    training.assert_by_the_book(train(training.assembled(), N_STEPS))


# Loops


@trainings(NETWORKS)
def test_steps_that_the_host_calls_on_every_core(training: Training, monkeypatch: pytest.MonkeyPatch, counted) -> None:
    monkeypatch.setattr(plans, "read_network", lambda *_: Reading(output=None, n_convolutions=1))
    monkeypatch.setattr(plans, "n_cores", lambda: 3)
    on_host, threads = counted(engine_run, "host_steps"), counted(host_steps, "side_by_side")
    trained = train(training.assembled(), N_STEPS)
    n_members = len(trained.losses)
    assert trained.plan == Plan("sequential", n_members, on_host=True)
    assert (len(on_host), [len(tasks) for (tasks,) in threads]) == (1, [n_members])
    training.assert_by_the_book(trained)


@trainings(["lenet"], "pac2", "dice", "agree to disagree", slow=["dice", "agree to disagree"])
def test_steps_that_the_host_calls_of_members_that_meet(training: Training, counted) -> None:
    on_host = counted(engine_run, "host_steps")
    trained = train(training.assembled(), N_STEPS)
    assert len(on_host) * trained.plan.lanes_at_once == len(trained.losses)
    training.assert_by_the_book(trained)


@trainings(["lenet", "wide resnet"])
def test_convolutions_in_a_compiled_loop(training: Training, on_a_cpu_that, counted) -> None:
    on_a_cpu_that(convolutions_on_host=False)
    on_host = counted(engine_run, "host_steps")
    training.assert_by_the_book(train(training.assembled(), N_STEPS))
    assert on_host == []


@trainings(["remembering"])
@pytest.mark.parametrize("prepared", ["together", "step by step"])
def test_a_loop_in_rounds(
    training: Training, prepared: str, monkeypatch: pytest.MonkeyPatch, on_a_cpu_that, counted
) -> None:
    on_a_cpu_that(steps_in_rounds=True)
    monkeypatch.setattr(rounds, "STEPS_A_ROUND", 4)
    if prepared == "step by step":
        monkeypatch.setattr(rounds, "PREPARED_BYTES", 0)
    traced = counted(loop, "steps_in_rounds")
    training.assert_by_the_book(train(training.assembled(training.unshared), N_STEPS))
    assert len(traced) == 1


@trainings(["remembering"])
@pytest.mark.parametrize("in_rounds", [False, True])
def test_blocks_that_end_within_a_pass_and_within_a_round(
    training: Training, in_rounds: bool, on_a_cpu_that, counted
) -> None:
    on_a_cpu_that(block=4, steps_in_rounds=in_rounds)
    lasting = counted(blocks, "lane_rows_in_orders")
    run = Run(*training.assembled(training.unshared))
    means: list[np.ndarray] = []
    for stop in (3, N_STEPS):
        run.advance(stop, lambda _, losses: means.append(losses))
    assert len(lasting) == 2 * 3  # labelled and unlabelled rows of three blocks
    losses = sum(n * each for n, each in zip((3, 1, 4, 2), means, strict=True)) / N_STEPS
    training.assert_by_the_book((*run.variables, losses))


# Parameters


@trainings(["perceptron"])
def test_small_parameters_in_one_vector_and_large_ones_beside_it(
    training: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "SMALL", 16)
    run = Run(*training.assembled(training.unshared))
    moments = run.state.optimiser_state[0].mu
    assert [leaf.shape for leaf in (*moments.large, moments.small)] == [(3, 4, 8), (3, 8, 3), (3, 11)]
    losses: list[np.ndarray] = []
    run.advance(N_STEPS, lambda _, mean: losses.append(mean))
    (mean,) = losses
    training.assert_by_the_book((*run.variables, mean))


# AdamW hardly minds the scale of a gradient; this one does.
@trainings(["remembering", "lenet"], optimiser=SGD)
def test_an_optimiser_that_the_user_brings(training: Training) -> None:
    training.assert_by_the_book(train(training.assembled(), N_STEPS))


@trainings(["perceptron"], "pac2", "agree to disagree", optimiser=SGD)
def test_an_optimiser_that_the_user_brings_of_members_that_meet(training: Training) -> None:
    training.assert_by_the_book(train(training.assembled(), N_STEPS))


# What a GPU computes otherwise


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is traced now has the form that it has on a GPU."""
    monkeypatch.setenv(ENGINE_RULES, "")
    monkeypatch.setattr(jax, "default_backend", lambda: "gpu")


FORMS = {"lenet": ["feature_group_count = 2"], "wide resnet": ["feature_group_count = 2", "optimization_barrier"]}


@pytest.mark.usefixtures("on_a_gpu")
@trainings(NETWORKS, slow=["perceptron", "wide resnet"])
def test_the_forms_of_a_gpu(training: Training, monkeypatch: pytest.MonkeyPatch, counted) -> None:
    in_rounds, programs, lowered = counted(loop, "steps_in_rounds"), [], Run._lowered_steps

    def noted(*given: Any) -> list[Any]:
        programs.extend(lowered(*given))
        return programs

    monkeypatch.setattr(Run, "_lowered_steps", noted)
    trained = train(training.assembled(training.unshared), N_STEPS)
    assert trained.plan == Plan("vectorised", len(trained.losses), on_host=False)
    assert len(in_rounds) == len(programs) == 1
    assert all(form in programs[0].as_text() for form in FORMS.get(training.network, []))
    training.assert_by_the_book(trained)


@pytest.mark.usefixtures("on_a_gpu")
@trainings(["perceptron", "lenet"], "pac2", "dice", "agree to disagree", slow=["lenet"])
def test_the_forms_of_a_gpu_of_members_that_meet(training: Training, counted) -> None:
    in_rounds = counted(loop, "steps_in_rounds")
    training.assert_by_the_book(train(training.assembled(training.unshared), N_STEPS))
    assert len(in_rounds) == 1


# Searches


@pytest.mark.parametrize("shared", [False, True], ids=["a program for each candidate", "one program for all"])
def test_the_candidates_of_a_search(shared: bool, on_a_cpu_that) -> None:
    on_a_cpu_that(ensembles_share_a_program=shared)
    x, y, _, u = TABLE
    settings = Settings(batch_size=8, learning_rate=0.01, dtype="float64")
    network = NETWORKS["perceptron"]("float64")
    job = make_job(prepare(x, y, u), network, Nu(), settings, n_members=2, n_steps=N_STEPS, key=random_key(0))
    held_out = held_out_of(job, stratified_folds(job.problem.y, 2, 1, seed=0))
    ready = Trial(job, held_out, np.array([N_STEPS]), n_members=2).assembled([Nu(0.0), Nu(0.1), Nu(1.0)])
    held_out_rows = [np.arange(lane, lane + 5) for lane in range(4)]
    pool = LanePool(ready, lanes_a_set=4, predicted=held_out_rows)
    assert len(pool.groups) == (1 if shared else 3)
    pool.advance(6, lambda *_: None)
    left = np.arange(4, 8)  # the second candidate: two members of each of two folds
    pool.keep(left)
    pool.advance(N_STEPS, lambda *_: None)
    params, _, _ = train_by_the_book(ready, N_STEPS)
    expected = jax.tree.map(lambda leaf: leaf[left], params)
    jax.tree.map(partial(np.testing.assert_allclose, rtol=0, atol=BARS["float64"]), pool.variables(left)[0], expected)
    of_all_rows = lane_probabilities(ready.program.model, "float64", expected, {}, ready.data.x)
    for found, of_lane, rows in zip(pool.probabilities(left), of_all_rows, held_out_rows, strict=True):
        np.testing.assert_allclose(found[:5], of_lane[rows], rtol=0, atol=BARS["float64"])
