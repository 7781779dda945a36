"""Copies of the parameters on the way, another learning rate at the end, and trainings that are kept when finished."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from nu_ensembles.engine import train as module
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Snapshots, Standard
from nu_ensembles.models.parameter_rows import parameters_from_rows

N_STEPS = 12


class PowerCutError(Exception):
    pass


@pytest.mark.parametrize("plan", ["vectorised", "sequential"])
def test_a_snapshot_is_where_a_shorter_training_ends(assembled, largest_difference, plan: str) -> None:
    ready = assembled(Standard(), plan=plan)
    trained = ready.train(N_STEPS, evaluate=Snapshots(at=[5, N_STEPS]))
    assert sorted(trained.evaluations) == [5, N_STEPS]
    assert trained.evaluations[5].shape[0] == 3
    taken = {at: parameters_from_rows(rows, trained.params) for at, rows in trained.evaluations.items()}
    assert largest_difference(taken[5], ready.train(5).params) == 0
    assert largest_difference(taken[N_STEPS], trained.params) == 0
    assert largest_difference(ready.train(N_STEPS).params, trained.params) == 0


def test_the_last_part_goes_on_at_its_own_learning_rate(assembled, largest_difference) -> None:
    slow, fast = (assembled(Standard(), learning_rate=rate) for rate in (0.01, 0.05))
    from_the_start = slow.train(N_STEPS, evaluate=Snapshots(at=[5], start=0, learning_rate=0.05))
    assert largest_difference(from_the_start.params, fast.train(N_STEPS).params) == 0
    late = slow.train(N_STEPS, evaluate=Snapshots(at=[5, 9], start=7, learning_rate=0.05))
    plain = slow.train(N_STEPS, evaluate=Snapshots(at=[5, 9]))
    np.testing.assert_array_equal(late.evaluations[5], plain.evaluations[5])
    assert np.abs(late.evaluations[9] - plain.evaluations[9]).max() > 0.01


@pytest.mark.parametrize("n_checkpoints", [1, 2, 3, 4])
def test_a_broken_training_has_the_same_snapshots(
    assembled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_checkpoints: int
) -> None:
    ready = assembled(Standard())
    wanted = Snapshots(at=[5, 9], start=7, learning_rate=0.05)
    unbroken = ready.train(N_STEPS, evaluate=wanted)
    save, left = CheckpointFolder.save, n_checkpoints

    def save_until_the_power_goes(*arguments: Any) -> None:
        nonlocal left
        save(*arguments)
        left -= 1
        if left == 0:
            raise PowerCutError

    with monkeypatch.context() as patch:
        patch.setattr(CheckpointFolder, "save", save_until_the_power_goes)
        with pytest.raises(PowerCutError):
            ready.train(N_STEPS, evaluate=wanted, checkpoints=CheckpointFolder(tmp_path, every_seconds=0))
    resumed = ready.train(N_STEPS, evaluate=wanted, checkpoints=CheckpointFolder(tmp_path, resume=True))
    jax.tree.map(np.testing.assert_array_equal, resumed.params, unbroken.params)
    assert sorted(resumed.evaluations) == [5, 9]
    for at, rows in unbroken.evaluations.items():
        np.testing.assert_array_equal(resumed.evaluations[at], rows)


def test_other_snapshots_are_another_training(assembled, tmp_path: Path) -> None:
    ready = assembled(Standard())
    ready.train(N_STEPS, evaluate=Snapshots([5], 3, 0.1), checkpoints=CheckpointFolder(tmp_path, every_seconds=0))
    for other in (Snapshots([6], 3, 0.1), Snapshots([5], 4, 0.1), Snapshots([5], 3, 0.2), Snapshots([5], 3), None):
        with pytest.raises(InputError, match="belongs to other data or settings"):
            ready.train(N_STEPS, evaluate=other, checkpoints=CheckpointFolder(tmp_path, resume=True))


@pytest.mark.parametrize("plan", ["vectorised", "sequential"])
def test_a_training_that_is_kept_is_read_and_not_repeated(
    assembled, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plan: str
) -> None:
    ready, wanted = assembled(Standard(), plan=plan), Snapshots([5])
    # No checkpoint is due on the way: what is read is the finished training.
    keeping = {"keep_finished": True, "evaluate": wanted}
    trained = ready.train(N_STEPS, checkpoints=CheckpointFolder(tmp_path, every_seconds=1e9), **keeping)
    monkeypatch.setattr(module.Run, "advance", None)
    read = ready.train(N_STEPS, checkpoints=CheckpointFolder(tmp_path, resume=True), **keeping)
    jax.tree.map(np.testing.assert_array_equal, read.params, trained.params)
    np.testing.assert_array_equal(read.evaluations[5], trained.evaluations[5])
