"""A search that is killed goes on within the round that it was in, to the same bits; what it reads back is checked."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nu_ensembles import models, storage
from nu_ensembles.engine.pool import LanePool
from nu_ensembles.engine.settings import Settings
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.lifecycle.interrupts import Terminated
from nu_ensembles.lifecycle.state import KeptState
from nu_ensembles.methods import Nu, Pac2
from nu_ensembles.problem import prepare, random_key
from nu_ensembles.training import RunFolder, TrainingJob, make_job
from nu_ensembles.tuning import search
from nu_ensembles.tuning.choice import SearchResult
from nu_ensembles.tuning.folds import Fold, stratified_folds
from nu_ensembles.tuning.scores import OutOfFold
from nu_ensembles.tuning.search import SearchSettings

# The reference trains first, then the others; where the best of these sits on the edge, further rounds follow.
HOW = SearchSettings(betas=(0.0, 0.01, 0.03), n_members=2, n_stops=3, probes=())


class PowerCutError(Exception):
    pass


@pytest.fixture(scope="module")
def job(blobs) -> TrainingJob:
    x, y, u = blobs
    settings = Settings(batch_size=8, learning_rate=0.01)
    return make_job(prepare(x, y, u), models.mlp(3, hidden=(8,)), Nu(0.1), settings, 2, 24, random_key(0))


@pytest.fixture(scope="module")
def folds(job: TrainingJob) -> list[Fold]:
    return stratified_folds(job.problem.y, 3, 1, seed=0)


@pytest.fixture
def best_is_the_largest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two more rounds than the first."""
    monkeypatch.setattr(OutOfFold, "best_beta", property(lambda self: min(0.1, max(self.tried_betas))))


@pytest.fixture
def one_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    """The smaller of the two others goes after the first stop."""
    monkeypatch.setattr(OutOfFold, "is_beaten", lambda self, candidate, stop: self.betas[candidate] == 0.01)
    monkeypatch.setattr(OutOfFold, "is_past_its_best", lambda self, candidate, stop: stop == 1)


Search = Callable[..., SearchResult]


@pytest.fixture
def searched(job: TrainingJob, folds: list[Fold]) -> Search:
    def call(folder: Path | None = None, every_seconds: float = 0.0, job: TrainingJob = job, how: Any = HOW) -> Any:
        if folder is None:
            return search(job, folds, how)
        with RunFolder(folder, {}, resume=True, checkpoint_seconds=every_seconds) as run:
            return search(job, folds, how, run=run)

    return call


def cut_after(monkeypatch: pytest.MonkeyPatch, n_states: int) -> list[str]:
    """Lets the power go once so many states are written; the names of what was written."""
    write, written = KeptState.write, []

    def write_until_the_power_goes(self: KeptState, *arguments: Any, **about: Any) -> None:
        write(self, *arguments, **about)
        written.append(self.name)
        if len(written) == n_states:
            raise PowerCutError

    monkeypatch.setattr(KeptState, "write", write_until_the_power_goes)
    return written


def assert_same_bits(one: SearchResult, other: SearchResult) -> None:
    for name in ("betas", "steps", "losses", "probabilities", "rows", "y", "weight", "fold_of"):
        np.testing.assert_array_equal(getattr(one.out_of_fold, name), getattr(other.out_of_fold, name), err_msg=name)
    assert (one.chosen, one.best, one.tolerance) == (other.chosen, other.best, other.tolerance)


@pytest.mark.usefixtures("best_is_the_largest", "one_is_dropped")
def test_a_search_that_breaks_again_and_again_ends_with_the_same_bits(
    searched: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unbroken = searched()
    assert unbroken.betas.tolist() == [0.0, 0.01, 0.03, 0.1, 0.3]
    assert np.isnan(unbroken.nll).tolist()[1] == [False, True, True]
    names: list[str] = []
    found = None
    while found is None:
        with monkeypatch.context() as patch:
            written = cut_after(patch, 4)
            with contextlib.suppress(PowerCutError):
                found = searched(tmp_path / "run")
        names += written
        assert len(names) < 100
    assert set(names) == {"search-0", "search-1", "search-2", "search-3"}
    assert_same_bits(found, unbroken)
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []


def test_what_was_done_is_not_done_again(searched: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps: list[int] = []
    advance = LanePool.advance

    def counting(self: LanePool, to_step: int, report: Any) -> None:
        def count(n: int, loss: float) -> None:
            steps.append(n)
            report(n, loss)

        advance(self, to_step, count)

    monkeypatch.setattr(LanePool, "advance", counting)
    how = dataclasses.replace(HOW, extend=False)
    unbroken = searched(how=how)
    n_unbroken = sum(steps)
    steps.clear()
    with monkeypatch.context() as patch:
        cut_after(patch, 3)
        with pytest.raises(PowerCutError):
            searched(tmp_path / "run", how=how)
    assert_same_bits(searched(tmp_path / "run", how=how), unbroken)
    assert sum(steps) == n_unbroken


@pytest.mark.parametrize(("number", "kind"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, Terminated)])
def test_ctrl_c_and_sigterm_keep_the_round_before_they_end_it(
    searched: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, kind: Any
) -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    add, how = OutOfFold.add, dataclasses.replace(HOW, extend=False)

    def then_stop(self: OutOfFold, candidate: int, stop: int, by_fold: np.ndarray) -> None:
        add(self, candidate, stop, by_fold)
        signal.raise_signal(number) if (candidate, stop) == (1, 0) else None

    try:
        with monkeypatch.context() as patch:
            patch.setattr(OutOfFold, "add", then_stop)
            with pytest.raises(kind, match="can be resumed"):
                searched(tmp_path / "run", every_seconds=1e9, how=how)
    finally:
        signal.signal(signal.SIGINT, before)
    assert (tmp_path / "run" / "checkpoints" / "search-0.json").exists()
    assert_same_bits(searched(tmp_path / "run", how=how), searched(how=how))


def test_members_that_meet_are_kept_fold_by_fold_and_within_a_fold(
    searched: Search, job: TrainingJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    joint, how = job.replace(method=Pac2()), SearchSettings(n_stops=3)
    unbroken = searched(job=joint, how=how)
    for n_states in (5, 2):
        with monkeypatch.context() as patch:
            cut_after(patch, n_states)
            with pytest.raises(PowerCutError):
                searched(tmp_path / "run", job=joint, how=how)
    assert (tmp_path / "run" / "checkpoints" / "without-fold-0.json").exists()
    assert_same_bits(searched(tmp_path / "run", job=joint, how=how), unbroken)


def sealed_again(folder: Path, **changes: Any) -> None:
    index = folder / "checkpoints" / "search-0.json"
    entry = storage.read_sealed_json(index, "The index")
    arrays = storage.load_arrays(index.parent / entry["arrays"], None)
    changed = {name: changes.pop(name) for name in list(changes) if name in arrays}
    entry["sha256"] = storage.save_arrays(index.parent / entry["arrays"], arrays | changed)
    storage.write_sealed_json(index, entry | changes)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_measured": 4},
        {"n_measured": -1},
        {"n_measured": None},
        {"steps": [1, 1, 1]},
        {"steps": [25]},
        {"steps": 3},
        {"arrays": "../other.safetensors"},
        {"fingerprint": None},
        {"losses": np.zeros((2, 3, 40))},
        {"lanes/0": np.array([0, 99])},
        {"lanes/0": np.array([[0]])},
        {"probabilities": np.zeros((1, 40, 3), np.float32)},
    ],
    ids=str,
)
def test_a_state_that_cannot_be_one_of_this_search_is_refused(
    searched: Search, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    how = dataclasses.replace(HOW, extend=False)
    with monkeypatch.context() as patch:
        cut_after(patch, 2)
        with pytest.raises(PowerCutError):
            searched(tmp_path / "run", how=how)
    sealed_again(tmp_path / "run", **changes)
    with pytest.raises(DamagedFileError):
        searched(tmp_path / "run", how=how)


def test_the_round_of_another_search_is_refused(
    searched: Search, job: TrainingJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        cut_after(patch, 1)
        with pytest.raises(PowerCutError):
            searched(tmp_path / "run")
    other = job.replace(problem=dataclasses.replace(job.problem, x=job.problem.x + 1))
    with pytest.raises(InputError, match="belongs to other data or settings; use the same ones to resume it"):
        searched(tmp_path / "run", job=other)


def test_a_record_that_chose_what_was_not_measured_is_refused(searched: Search, tmp_path: Path) -> None:
    how = dataclasses.replace(HOW, extend=False)
    searched(tmp_path / "run", how=how)
    path = tmp_path / "run" / "search.json"
    entry = storage.read_sealed_json(path, "The record")
    for change in ({"chosen": [3, 0]}, {"best": [0, 3]}, {"chosen": [0]}, {"tolerance": None}, {"sha256": 3}):
        storage.write_sealed_json(path, entry | change)
        with pytest.raises(DamagedFileError, match="The record of a search"):
            searched(tmp_path / "run", how=how)
