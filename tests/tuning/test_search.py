"""The search for beta and steps: its trajectories on real networks, and its records."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles import models, storage
from nu_ensembles.engine.loop import compiled_loop
from nu_ensembles.engine.pool import LanePool
from nu_ensembles.engine.run import Run
from nu_ensembles.engine.settings import Settings
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.methods import Method, Nu, Standard, TrainingRows
from nu_ensembles.problem import Problem, prepare, random_key
from nu_ensembles.training import RunFolder, TrainingJob, make_job
from nu_ensembles.tuning import record
from nu_ensembles.tuning import search as search_function
from nu_ensembles.tuning.choice import SearchResult, choose
from nu_ensembles.tuning.folds import Fold, held_out_of, stratified_folds
from nu_ensembles.tuning.scores import OutOfFold
from nu_ensembles.tuning.search import SearchSettings
from nu_ensembles.tuning.trial import Trial

NETWORK = models.mlp(3, hidden=(8,))
SETTINGS = Settings(batch_size=8, learning_rate=0.01)
HOW = SearchSettings(betas=(0.0, 0.1), n_members=2, n_stops=3, extend=False, probes=())


def test_stops_are_log_spaced_up_to_the_last_step() -> None:
    stops = SearchSettings().stops(3200)
    assert (len(stops), stops[0], stops[-1]) == (12, 50, 3200)
    np.testing.assert_allclose(stops[1:] / stops[:-1], 64 ** (1 / 11), rtol=0.05)
    assert SearchSettings().stops(100_000)[0] == 50
    assert SearchSettings().stops(5).tolist() == [1, 2, 3, 4, 5]
    assert SearchSettings(n_stops=1).stops(100).tolist() == [100]
    assert SearchSettings(n_stops=2).stops(640).tolist() == [10, 640]


@pytest.mark.parametrize("option", [{"n_members": 0}, {"n_stops": 0}, {"tolerance": -0.5}])
def test_settings_that_make_no_sense_are_refused(option: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(option))}.* must be a"):
        SearchSettings(**option)


# Trajectories: three folds of 26 or 27 training rows with two members each, so that all tests share one program


def job_of(problem: Problem, seed: int = 0) -> TrainingJob:
    return make_job(problem, NETWORK, Nu(), SETTINGS, n_members=3, n_steps=24, key=random_key(seed))


@pytest.fixture(scope="module")
def job(blobs) -> TrainingJob:
    x, y, u = blobs
    return job_of(prepare(x, y, u))


@pytest.fixture(scope="module")
def folds(job: TrainingJob) -> list[Fold]:
    return stratified_folds(job.problem.y, 3, 1, seed=0)


@pytest.fixture(scope="module")
def found(job: TrainingJob, folds: list[Fold]) -> SearchResult:
    return search_function(job, folds, HOW)


@pytest.fixture
def trial(job: TrainingJob, folds: list[Fold]) -> Trial:
    return Trial(job, held_out_of(job, folds), HOW.stops(24), n_members=2)


def test_losses_are_those_of_ensembles_trained_on_the_other_folds(
    found: SearchResult, trial: Trial, folds: list[Fold]
) -> None:
    """Fold 1 again, by hand: its two members trained by the engine on its rows, predicting its held-out rows."""
    made, problem = trial.assembled([Nu(0.1)]), trial.job.problem
    run = Run(*made)
    run.advance(24)
    of_fold_1 = jax.tree.map(lambda leaf: leaf[2:4], run.state.params)
    held_out = folds[1].held_out
    x = jnp.asarray(problem.x[held_out])
    logits = jax.vmap(lambda p: NETWORK.apply(p, x, key=None, train=False))(of_fold_1)
    probabilities = np.asarray(jax.nn.softmax(logits), np.float64).mean(axis=0)
    losses = -np.log(probabilities[np.arange(len(held_out)), problem.y[held_out]])
    np.testing.assert_allclose(found.out_of_fold.losses[1, -1, held_out], losses, atol=1e-5)
    used = {int(row) for lane in (2, 3) for row in np.asarray(made.lanes.rows[lane, : made.lanes.n_rows[lane]])}
    assert used == set(folds[1].train.tolist())


def run_through(trial: Trial, *methods: Method) -> OutOfFold:
    """What is measured of methods that train side by side to the end."""
    found = trial.nothing_yet(range(len(methods)))
    heat = trial.heat(dict(enumerate(methods)), found)
    while not heat.is_over:
        heat.go_on(lambda n, loss: None)
    return found


def test_candidates_share_initialisation_batches_and_random_labels(trial: Trial) -> None:
    same = run_through(trial, Nu(0.1), Nu(0.1))
    np.testing.assert_array_equal(same.losses[0], same.losses[1])
    assert choose(same, HOW.tolerance).beta == 0.0


def test_a_search_is_reproducible_and_its_seed_matters(
    found: SearchResult, job: TrainingJob, folds: list[Fold]
) -> None:
    np.testing.assert_array_equal(search_function(job, folds, HOW).out_of_fold.losses, found.out_of_fold.losses)
    other = search_function(job_of(job.problem, seed=1), folds, HOW)
    assert (other.nll != found.nll).all()


def test_candidate_zero_is_the_standard_ensemble_to_the_last_bit(
    found: SearchResult, job: TrainingJob, folds: list[Fold]
) -> None:
    early_stopping = dataclasses.replace(HOW, betas=None)
    standard = search_function(job.replace(method=Standard()), folds, early_stopping)
    np.testing.assert_array_equal(found.out_of_fold.losses[0], standard.out_of_fold.losses[0])
    assert found.standard_steps == standard.n_steps


def test_a_tiny_beta_is_nearly_the_standard_ensemble(found: SearchResult, trial: Trial) -> None:
    np.testing.assert_allclose(run_through(trial, Nu(1e-6)).mean_nll()[0], found.nll[0], rtol=1e-3)


def test_all_candidates_but_the_reference_are_one_compiled_program(
    found: SearchResult, job: TrainingJob, folds: list[Fold]
) -> None:
    compiled = compiled_loop((), False)._cache_size()
    search_function(job, folds, dataclasses.replace(HOW, betas=(0.0, 0.2, 0.7), n_stops=5, probes=(0.2,)))
    assert compiled_loop((), False)._cache_size() == compiled


def test_a_dropped_candidate_is_not_measured_any_more(
    job: TrainingJob, folds: list[Fold], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OutOfFold, "is_beaten", lambda self, candidate, stop: stop == 1)
    nll = search_function(job, folds, HOW).nll
    assert np.isnan(nll).tolist() == [[False] * 3, [False, False, True]]


def test_a_validation_set_takes_the_place_of_the_folds(blobs) -> None:
    x, y, u = blobs
    train, rest = prepare(x[:27], y[:27], u), slice(27, 40)
    shown = TrainingRows(*train.further_rows(x[rest], y[rest], "the validation x"), np.ones(13, np.float32))
    found = search_function(job_of(train).replace(validation=shown), [], dataclasses.replace(HOW, n_members=6))
    assert found.out_of_fold.rows.tolist() == list(range(27, 40))
    assert found.out_of_fold.y.tolist() == y[rest].tolist()
    assert found.nll[0, -1] < found.nll[0, 0]
    assert np.isfinite(found.nll[:, 0]).all()


def test_a_group_of_lanes_shrinks_when_half_of_it_is_gone_and_goes_on_as_before(trial: Trial) -> None:
    held_out = [fold.held_out for fold in trial.held_out.folds for _ in range(2)]
    pools = [LanePool(trial.assembled([Nu(0.1)]), 6, "vectorised", predicted=held_out) for _ in range(2)]
    done: list[int] = []
    for pool in pools:
        pool.advance(5, lambda n, loss: done.append(n))
    assert done == [30, 30]  # five steps of six lanes
    pools[0].keep(np.arange(1, 6))
    assert [len(indices) for indices, _ in pools[0].groups] == [6]  # one lane less is not worth a compilation
    pools[0].keep(np.array([1, 4]))
    assert [indices.tolist() for indices, _ in pools[0].groups] == [[1, 4]]
    for pool in pools:
        pool.advance(9, lambda n, loss: done.append(n))
    assert done[2:] == [4 * 2, 4 * 6]
    kept, whole = (pool.probabilities(np.array([1, 4])) for pool in pools)
    np.testing.assert_allclose(kept, whole, atol=1e-5)
    pools[0].keep(np.array([], int))
    assert pools[0].groups == []


# Records


def recorded(folder: Path | None, job: TrainingJob, folds: list[Fold], how: SearchSettings = HOW) -> SearchResult:
    if folder is None:
        return search_function(job, folds, how)
    with RunFolder(folder, {}, resume=True, checkpoint_seconds=30) as run:
        return search_function(job, folds, how, run=run)


@pytest.fixture
def no_search(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("searched again")

    monkeypatch.setattr(Trial, "__init__", refuse)


def test_a_finished_search_is_read_back_to_the_last_bit(
    tmp_path: Path, found: SearchResult, job: TrainingJob, folds: list[Fold], request: pytest.FixtureRequest
) -> None:
    recorded(tmp_path, job, folds)
    request.getfixturevalue("no_search")
    again = recorded(tmp_path, job, folds)
    for name in ("betas", "steps", "nll"):
        np.testing.assert_array_equal(getattr(again, name), getattr(found, name))
    for name in ("losses", "probabilities", "rows", "y", "weight", "fold_of"):
        np.testing.assert_array_equal(getattr(again.out_of_fold, name), getattr(found.out_of_fold, name))
    assert (again.chosen, again.best) == (found.chosen, found.best)


def test_the_search_of_other_data_or_settings_is_refused(
    tmp_path: Path, job: TrainingJob, folds: list[Fold], request: pytest.FixtureRequest
) -> None:
    recorded(tmp_path, job, folds)
    request.getfixturevalue("no_search")
    with pytest.raises(InputError, match="belongs to other data or settings"):
        recorded(tmp_path, job, folds, dataclasses.replace(HOW, tolerance=0.25))
    with pytest.raises(InputError, match="belongs to other data or settings"):
        recorded(tmp_path, job, folds[:2])
    with pytest.raises(InputError, match="belongs to other data or settings"):
        recorded(tmp_path, job.replace(problem=dataclasses.replace(job.problem, x=job.problem.x + 1)), folds)


def test_a_damaged_record_is_named(tmp_path: Path, job: TrainingJob, folds: list[Fold]) -> None:
    recorded(tmp_path, job, folds)
    for path in (tmp_path / record.INDEX, tmp_path / record.ARRAYS):
        raw = path.read_bytes()
        path.write_bytes(raw[:-9] + bytes([raw[-9] ^ 1]) + raw[-8:])
        with pytest.raises(DamagedFileError, match=path.name):
            recorded(tmp_path, job, folds)
        path.write_bytes(raw)


def test_a_record_whose_index_was_never_written_is_no_record(
    tmp_path: Path, job: TrainingJob, folds: list[Fold]
) -> None:
    storage.save_arrays(tmp_path / record.ARRAYS, {"half": np.zeros(1)})
    assert recorded(tmp_path, job, folds).nll.shape == (2, 3)


def test_without_a_folder_nothing_is_recorded(job: TrainingJob, folds: list[Fold], found: SearchResult) -> None:
    np.testing.assert_array_equal(recorded(None, job, folds).nll, found.nll)
