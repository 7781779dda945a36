"""Broken runs go on to the same bits; checkpoints of something else, or damaged ones, are refused."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.engine.checkpoints import CheckpointFolder, fingerprint, lasting_repr
from nu_ensembles.engine.plans import Plan
from nu_ensembles.engine.train import Evaluate, Trained
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.methods import Nu, Standard

N_STEPS = 12
STOPS = [0, 5, 9, 12]


@pytest.fixture(autouse=True)
def interrupts_as_in_a_terminal() -> Iterator[None]:
    """A process in the background may ignore SIGINT; here it raises, whoever started the tests."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


class PowerCutError(Exception):
    pass


class Unreliable(CheckpointFolder):
    """A place where the power goes out after a number of checkpoints."""

    def __init__(self, folder: Path, n_checkpoints: int) -> None:
        super().__init__(folder, every_seconds=0)
        self.n_left = n_checkpoints

    def save(self, *arguments: Any, **options: Any) -> None:
        super().save(*arguments, **options)
        self.n_left -= 1
        if self.n_left == 0:
            raise PowerCutError


def evaluate(ready, then: Any = None) -> Evaluate:
    return Evaluate(np.asarray(ready.data.x[:5]), STOPS, then)


def assert_same_bits(one: Trained, other: Trained) -> None:
    jax.tree.map(np.testing.assert_array_equal, (one.params, one.model_state), (other.params, other.model_state))
    assert sorted(one.evaluations) == sorted(other.evaluations)
    for step, probabilities in one.evaluations.items():
        np.testing.assert_array_equal(probabilities, other.evaluations[step])


# Under the sequential plan every member saves three times, at steps 5, 9 and 12.
@pytest.mark.parametrize(
    ("plan", "n_checkpoints"),
    [("vectorised", 1), ("vectorised", 3), ("sequential", 2), ("sequential", 3), ("sequential", 8)],
)
def test_a_broken_run_goes_on_to_the_same_bits(assembled, tmp_path: Path, plan: str, n_checkpoints: int) -> None:
    ready = assembled(Nu(0.1), plan=plan)
    unbroken = ready.train(N_STEPS, evaluate=evaluate(ready))
    with pytest.raises(PowerCutError):
        ready.train(N_STEPS, evaluate=evaluate(ready), checkpoints=Unreliable(tmp_path, n_checkpoints))
    resumed = ready.train(N_STEPS, evaluate=evaluate(ready), checkpoints=CheckpointFolder(tmp_path, resume=True))
    assert_same_bits(resumed, unbroken)


def test_a_run_may_break_again_and_again(assembled, tmp_path: Path) -> None:
    ready = assembled(Nu(0.1))
    unbroken = ready.train(N_STEPS, evaluate=evaluate(ready))
    for _ in range(3):
        checkpoints = Unreliable(tmp_path, 1)
        checkpoints.resume = True
        with pytest.raises(PowerCutError):
            ready.train(N_STEPS, evaluate=evaluate(ready), checkpoints=checkpoints)
    resumed = ready.train(N_STEPS, evaluate=evaluate(ready), checkpoints=CheckpointFolder(tmp_path, resume=True))
    assert_same_bits(resumed, unbroken)


def test_ctrl_c_keeps_a_checkpoint_to_resume_from(assembled, tmp_path: Path) -> None:
    ready = assembled(Nu(0.1))
    unbroken = ready.train(N_STEPS, evaluate=evaluate(ready))
    reported: list[int] = []

    def press_at_5(step: int, _: np.ndarray) -> None:
        reported.append(step)
        if step == 5:
            signal.raise_signal(signal.SIGINT)

    folder = CheckpointFolder(tmp_path, every_seconds=1e9)
    with pytest.raises(KeyboardInterrupt, match="can be resumed"):
        ready.train(N_STEPS, evaluate=evaluate(ready, press_at_5), checkpoints=folder)
    assert reported == [0, 5]
    then_reported: list[int] = []
    resumed = ready.train(
        N_STEPS,
        evaluate=evaluate(ready, lambda step, _: then_reported.append(step)),
        checkpoints=CheckpointFolder(tmp_path, resume=True),
    )
    assert then_reported == [0, 5, 9, 12]  # what the checkpoint holds is told again
    assert_same_bits(resumed, unbroken)


def test_ctrl_c_after_the_last_step_is_not_swallowed(assembled, tmp_path: Path) -> None:
    ready = assembled(Nu(0.1))

    def press_at_the_end(step: int, _: np.ndarray) -> None:
        if step == N_STEPS:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        ready.train(N_STEPS, evaluate=evaluate(ready, press_at_the_end), checkpoints=CheckpointFolder(tmp_path))


@pytest.fixture
def broken_off(assembled, tmp_path: Path):
    """A training that broke off after a checkpoint in `tmp_path`."""
    ready = assembled(Nu(0.1))
    with pytest.raises(PowerCutError):
        ready.train(N_STEPS, checkpoints=Unreliable(tmp_path, 1))
    return ready


@pytest.mark.parametrize(
    ("changed", "n_steps"),
    [
        ({"seed": 1}, N_STEPS),
        ({"learning_rate": 0.02}, N_STEPS),
        ({"batch_size": 16}, N_STEPS),
        ({"method": Nu(0.2)}, N_STEPS),
        ({"method": Nu(0.1, "shared")}, N_STEPS),
        ({"method": Standard()}, N_STEPS),
        ({"members": range(1, 4)}, N_STEPS),
        ({"x": np.zeros((40, 4), np.float32)}, N_STEPS),
        ({"plan": "sequential"}, N_STEPS),
        ({}, N_STEPS + 1),
    ],
    ids=["seed", "rate", "batch size", "beta", "labels", "method", "members", "data", "plan", "steps"],
)
def test_a_checkpoint_of_other_data_or_settings_is_refused(
    broken_off, assembled, tmp_path: Path, changed: dict[str, Any], n_steps: int
) -> None:
    other = assembled(**{"method": Nu(0.1), **changed})
    with pytest.raises(InputError, match="belongs to other data or settings; use the same ones to resume it, or start"):
        other.train(n_steps, checkpoints=CheckpointFolder(tmp_path, resume=True))


@pytest.mark.parametrize(("n_rows", "stops"), [(4, STOPS), (5, [0, 5, 12])])
def test_a_checkpoint_of_other_evaluations_is_refused(assembled, tmp_path: Path, n_rows: int, stops: list[int]) -> None:
    ready = assembled(Nu(0.1))
    with pytest.raises(PowerCutError):
        ready.train(N_STEPS, evaluate=evaluate(ready), checkpoints=Unreliable(tmp_path, 2))
    other = Evaluate(np.asarray(ready.data.x[:n_rows]), stops)
    with pytest.raises(InputError, match="belongs to other data or settings"):
        ready.train(N_STEPS, evaluate=other, checkpoints=CheckpointFolder(tmp_path, resume=True))


def test_a_checkpoint_is_not_overwritten_by_a_run_that_was_not_asked_to_resume(broken_off, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds an unfinished run; resume it, or choose another folder"):
        broken_off.train(N_STEPS, checkpoints=CheckpointFolder(tmp_path))


@pytest.mark.parametrize("pattern", ["*.json", "*.safetensors"])
def test_a_flipped_byte_is_found_and_its_file_named(broken_off, tmp_path: Path, pattern: str) -> None:
    (path,) = tmp_path.glob(pattern)
    raw = bytearray(path.read_bytes())
    raw[len(raw) // 2] ^= 1
    path.write_bytes(raw)
    with pytest.raises(DamagedFileError, match=path.name):
        broken_off.train(N_STEPS, checkpoints=CheckpointFolder(tmp_path, resume=True))


def test_a_missing_file_is_named(broken_off, tmp_path: Path) -> None:
    (path,) = tmp_path.glob("*.safetensors")
    path.unlink()
    with pytest.raises(DamagedFileError, match=path.name):
        broken_off.train(N_STEPS, checkpoints=CheckpointFolder(tmp_path, resume=True))


def test_clearing_leaves_an_empty_folder(broken_off, tmp_path: Path) -> None:
    assert len(list(tmp_path.iterdir())) == 2
    CheckpointFolder(tmp_path).clear()
    assert list(tmp_path.iterdir()) == []


def test_checkpoints_come_no_more_often_than_asked(tmp_path: Path) -> None:
    assert CheckpointFolder(tmp_path, every_seconds=0).due()
    assert not CheckpointFolder(tmp_path, every_seconds=1e9).due()


def test_a_function_is_known_by_its_name_so_that_another_process_can_resume(assembled) -> None:
    def fingerprint_with(augment: Any) -> str:
        ready = assembled(Standard(), augment=augment)
        return fingerprint(ready.program, ready.lanes, ready.data, N_STEPS, Plan("vectorised", 3, False))

    def brighten(key: jax.Array, images: jax.Array) -> jax.Array:
        return images + 0.1

    one, other = brighten, lambda key, images: images
    assert " at 0x" not in lasting_repr(one)
    assert fingerprint_with(one) != fingerprint_with(other)
    assert lasting_repr((jnp.tanh, 3, "a")) == lasting_repr((jnp.tanh, 3, "a"))
