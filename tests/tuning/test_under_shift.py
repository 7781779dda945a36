"""The search where unlabelled rows come from elsewhere: what it trains, keeps and says."""

from __future__ import annotations

import dataclasses
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nu_ensembles import models
from nu_ensembles.deployment import Shift
from nu_ensembles.engine.pool import LanePool
from nu_ensembles.engine.settings import Settings
from nu_ensembles.errors import InputError
from nu_ensembles.lifecycle.interrupts import Terminated
from nu_ensembles.lifecycle.state import KeptState
from nu_ensembles.methods import Nu, Standard
from nu_ensembles.problem import prepare, random_key
from nu_ensembles.training import RunFolder, TrainingJob, make_job, predict_members, run_job
from nu_ensembles.tuning import (
    Fold,
    ResultUnderShift,
    SearchSettings,
    search_under_shift,
    stratified_folds,
    under_shift,
)
from nu_ensembles.tuning.verdict import search_findings

NETWORK = models.mlp(3, hidden=(8,))
HOW = SearchSettings(betas=(0.0, 0.1), n_members=2, n_stops=3, extend=False)
SHIFT = Shift(0.97, 0.95, 0.99, 1e-9, ("height",))


@pytest.fixture(scope="module")
def job(blobs) -> TrainingJob:
    x, y, u = blobs
    settings = Settings(batch_size=8, learning_rate=0.01)
    return make_job(prepare(x, y, u + 1), NETWORK, Nu(), settings, n_members=3, n_steps=24, key=random_key(0))


@pytest.fixture(scope="module")
def folds(job: TrainingJob) -> list[Fold]:
    return stratified_folds(job.problem.y, 3, 1, seed=0)


@pytest.fixture(scope="module")
def found(job: TrainingJob, folds: list[Fold]) -> ResultUnderShift:
    return search_under_shift(job, folds, HOW, SHIFT)


def test_every_candidate_is_measured_on_every_labelled_row(found: ResultUnderShift) -> None:
    assert found.betas.tolist() in ([0, 0.03, 0.2], [0, 0.2, 0.6])
    assert found.out_of_fold.losses.shape == (3, len(found.steps), 40)
    assert np.isfinite(found.out_of_fold.losses).all()
    assert found.n_steps in found.steps


def test_the_unlabelled_rows_are_predicted_by_the_networks_that_a_fit_would_train(
    job: TrainingJob, folds: list[Fold], monkeypatch: pytest.MonkeyPatch
) -> None:
    """On all labels, with the seed's own keys: the standard ensemble of the same steps, member by member."""
    seen: list[under_shift.ShiftEvidence] = []

    def decide(evidence: under_shift.ShiftEvidence):
        seen.append(evidence)
        return decided(evidence)

    decided = under_shift.decide
    monkeypatch.setattr(under_shift, "decide", decide)
    search_under_shift(job, folds, HOW, SHIFT)
    steps = int(seen[0].steps[seen[0].standard_stop])
    alone = run_job(job.replace(method=Standard(), n_steps=steps), for_good=False)
    assert job.rows.x_unlabeled is not None
    expected = predict_members(alone, "float32", job.rows.x_unlabeled).mean(axis=0)
    np.testing.assert_allclose(seen[0].on_unlabeled[0], expected, atol=1e-5)


def test_what_is_chosen_is_trained_in_units_of_the_labelled_loss(found: ResultUnderShift) -> None:
    method = found.method_of(Nu(labels="shared"))
    if found.beta:
        assert method == Nu(found.beta, "shared", "labelled_loss")
    else:
        assert method == Standard()
    chosen = dataclasses.replace(found, chosen=(2, 1))
    assert chosen.method_of(Nu(labels="shared")) == Nu(found.betas[2], "shared", "labelled_loss")


def test_the_verdict_says_that_rows_differ_what_was_chosen_and_what_stays_open(found: ResultUnderShift) -> None:
    verdict = search_findings(found, "nu", found.n_steps).verdict
    assert verdict.startswith("The unlabelled rows differ from the labelled ones (told apart with AUROC 0.97, most by")
    assert f"β = {found.beta:g}" in verdict
    assert verdict.endswith("What that does to the NLL there only labelled rows from there can tell.")
    apart = dataclasses.replace(found, shift=dataclasses.replace(SHIFT, auroc=1.0))
    assert apart.verdict().endswith("Nearly every row can be told apart, so no method can promise anything there.")


def test_a_killed_run_does_not_search_again(
    tmp_path: Path, found: ResultUnderShift, job: TrainingJob, folds: list[Fold], monkeypatch: pytest.MonkeyPatch
) -> None:
    search_under_shift(job, folds, HOW, SHIFT, run=RunFolder(tmp_path, {}, resume=False, checkpoint_seconds=30))
    monkeypatch.setattr(under_shift, "LanePool", None)  # what trains
    again = search_under_shift(job, folds, HOW, SHIFT, run=RunFolder(tmp_path, {}, resume=True, checkpoint_seconds=30))
    assert (again.chosen, again.decision) == (found.chosen, found.decision)
    np.testing.assert_array_equal(again.out_of_fold.losses, found.out_of_fold.losses)
    other = job.replace(n_steps=12)
    with pytest.raises(InputError, match="other data or settings"):
        search_under_shift(other, folds, HOW, SHIFT, run=RunFolder(tmp_path, {}, resume=True, checkpoint_seconds=30))


class PowerCutError(Exception):
    pass


def searched(folder: Path, job: TrainingJob, folds: list[Fold], every_seconds: float = 0.0) -> ResultUnderShift:
    with RunFolder(folder, {}, resume=True, checkpoint_seconds=every_seconds) as run:
        return search_under_shift(job, folds, HOW, SHIFT, run=run)


def assert_same_bits(one: ResultUnderShift, other: ResultUnderShift) -> None:
    assert (one.chosen, one.best, one.decision) == (other.chosen, other.best, other.decision)
    for name in ("losses", "probabilities"):
        np.testing.assert_array_equal(getattr(one.out_of_fold, name), getattr(other.out_of_fold, name))


def test_it_may_break_after_every_few_checkpoints_and_no_step_is_done_twice(
    tmp_path: Path, found: ResultUnderShift, job: TrainingJob, folds: list[Fold], monkeypatch: pytest.MonkeyPatch
) -> None:
    write, advance = KeptState.write, LanePool.advance
    states, steps = [], []

    def write_until_the_power_goes(self: KeptState, *arguments: Any, **about: Any) -> None:
        write(self, *arguments, **about)
        states.append(self.name)
        if len(states) in (1, 2, 5, 6):
            raise PowerCutError

    def counting(self: LanePool, to_step: int, report: Any) -> None:
        def count(n: int, loss: float) -> None:
            steps.append(n)
            report(n, loss)

        advance(self, to_step, count)

    monkeypatch.setattr(LanePool, "advance", counting)
    search_under_shift(job, folds, HOW, SHIFT)
    n_unbroken = sum(steps)
    steps.clear()
    monkeypatch.setattr(KeptState, "write", write_until_the_power_goes)
    lives, again = 0, None
    while again is None:
        lives += 1
        try:
            again = searched(tmp_path / "run", job, folds)
        except PowerCutError:
            continue
    assert lives == 5
    assert set(states) == {"search-0", "search-1", "search-2"}
    assert sum(steps) == n_unbroken
    assert_same_bits(again, found)
    assert list((tmp_path / "run" / "checkpoints").glob("search-*")) == []


@pytest.mark.parametrize("stop", ["first", "last"])
def test_sigterm_keeps_it_before_it_ends(
    tmp_path: Path,
    found: ResultUnderShift,
    job: TrainingJob,
    folds: list[Fold],
    monkeypatch: pytest.MonkeyPatch,
    stop: str,
) -> None:
    seen, looks = under_shift._Trials._seen, []
    n_first, n_second = (int(np.isfinite(losses).all(axis=-1).sum()) for losses in found.out_of_fold.losses[:2])
    number, n_begun = (n_first + 1, 2) if stop == "first" else (n_first + 2 * n_second, 3)

    def then_stop(self: Any, pool: LanePool) -> Any:
        looks.append(pool)
        if len(looks) == number:
            signal.raise_signal(signal.SIGTERM)
        return seen(self, pool)

    with monkeypatch.context() as patch:
        patch.setattr(under_shift._Trials, "_seen", then_stop)
        with pytest.raises(Terminated, match="can be resumed"):
            searched(tmp_path / "run", job, folds, every_seconds=1e9)
    kept = {path.name for path in (tmp_path / "run" / "checkpoints").glob("*.json")}
    assert kept == {f"search-{number}.json" for number in range(n_begun)}
    assert_same_bits(searched(tmp_path / "run", job, folds), found)
