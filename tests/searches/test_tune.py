"""A search: the same whoever runs it, whenever, and with whichever trials side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.searches import SearchOutcome
from nu_ensembles.searches.draws import ParameterDraws
from nu_ensembles.searches.heat import heats_of, program_of, run_heat
from nu_ensembles.searches.leases import Leases

pytest.importorskip("optuna")

SPACE: dict[str, Any] = {"learning_rate": {"log": [1e-3, 1e-1]}, "beta": [0.001, 0.01]}
rng = np.random.default_rng(0)
Y = np.arange(60) % 3
X = (rng.normal(size=(60, 4)) + Y[:, None]).astype(np.float32)
U = (rng.normal(size=(40, 4)) + 1).astype(np.float32)
SMALL: dict[str, Any] = {"max_iter": 24, "n_stops": 3, "n_members": 1, "cv": 2, "model_options": {"hidden": [4]}}


def search(n_trials: int = 6, **changes: Any) -> SearchOutcome:
    return nu.tune(SPACE, X, Y, U, n_trials=n_trials, **{"generation": 3, **SMALL, **changes})


@pytest.fixture(scope="module")
def whole() -> SearchOutcome:
    return search()


def plain(outcome: SearchOutcome) -> str:
    return json.dumps(outcome.to_dict())


def test_trials_differ_and_the_best_is_the_lowest_of_all_curves(whole) -> None:
    assert [each.number for each in whole.trials] == list(range(6))
    assert len({json.dumps(each.to_dict()["parameters"]) for each in whole.trials}) == 6
    lowest = min(float(np.nanmin(each.curve["nll"])) for each in whole.trials)
    assert whole.best.value == lowest == whole.best.curve["nll"][whole.best.best_stop]
    assert whole.best.n_steps in whole.setting.stops


def test_a_trial_comes_to_the_same_alone(whole) -> None:
    for number in (2, 4):
        trial = whole.trials[number]
        alone = dict(run_heat(whole.setting, {number: trial.parameters}))[number]
        np.testing.assert_array_equal(alone.scores, trial.scores)


def test_trials_of_one_program_train_side_by_side_and_others_apart(whole) -> None:
    one, other = {"learning_rate": 0.1, "beta": 0.1}, {"learning_rate": 0.2, "beta": 0.2}
    trials = {0: one, 1: {**one, "beta": 0}, 2: other, 3: other, 4: {**one, "learning_rate": -1.0}}
    programs = {number: program_of(whole.setting, number, each) for number, each in trials.items()}
    assert heats_of(programs, together=2) == [[0, 2], [1], [3], [4]]


def test_a_search_that_was_stopped_goes_on_to_the_same(whole, tmp_path) -> None:
    class StoppedError(Exception):
        pass

    ended = []

    def stop(trial: Any) -> None:
        ended.append(trial.number)
        if len(ended) == 4:
            raise StoppedError

    with pytest.raises(StoppedError):
        search(folder=tmp_path / "run", together=1, on_trial=stop)
    assert (tmp_path / "run" / "unfinished").exists()
    again = []
    resumed = search(folder=tmp_path / "run", on_trial=lambda trial: again.append(trial.number))
    assert plain(resumed) == plain(whole)
    assert not (tmp_path / "run" / "unfinished").exists()
    assert json.loads((tmp_path / "run" / "results.json").read_text())["best"] == whole.best.number


def test_no_time_is_no_trial_and_nothing_lost(tmp_path, whole) -> None:
    outcome = search(folder=tmp_path / "run", time_limit=1e-9)
    assert (outcome.trials, outcome.n_wanted) == ((), 6)
    with pytest.raises(InputError, match="No trial came to anything"):
        _ = outcome.best
    assert plain(search(folder=tmp_path / "run")) == plain(whole)


def test_other_data_or_another_space_are_refused(tmp_path, whole) -> None:
    shared = f"sqlite:///{tmp_path / 'shared.db'}"
    search(2, storage=shared)
    with pytest.raises(InputError, match="other data or settings"):
        search(2, storage=shared, seed=1)
    assert [each.number for each in search(3, storage=shared).trials] == [0, 1, 2]  # more of the same


@pytest.mark.parametrize(
    ("storage", "said"),
    [
        ("postgresql://nobody:secret@127.0.0.1:9/none", "cannot be used"),
        ("nowhere", "is an address such as"),
        ("sqlite:////no/such/folder/search.db", "cannot be used"),
    ],
)
def test_a_database_that_is_away_is_told_in_a_sentence(storage: str, said: str) -> None:
    with pytest.raises(InputError, match=said) as raised:
        search(2, storage=storage)
    assert "secret" not in str(raised.value)


def test_a_folder_of_something_else_is_left_alone(tmp_path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else"):
        search(2, folder=tmp_path)


def test_a_value_that_nothing_can_be_trained_with_is_refused_before_the_search() -> None:
    with pytest.raises(InputError, match="dropout cannot be"):
        nu.tune({"dropout": [0, 2]}, X, Y, U, n_trials=2)


def test_unlabelled_rows_that_stay_in_a_file_are_refused(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("nu_ensembles.problem.lazily.FEW_BYTES", 0)
    np.save(tmp_path / "u.npy", U)
    with pytest.raises(InputError, match="stay in their files"):
        nu.tune(SPACE, X, Y, str(tmp_path / "u.npy"), n_trials=2)


def test_random_draws_do_not_depend_on_how_many_there_are(whole) -> None:
    draws = ParameterDraws(whole.setting.space, whole.objectives, 0, "random")
    few, many = draws.of_generation(0, 2, {}), draws.of_generation(0, 5, {})
    assert {number: many[number] for number in few} == few
    assert ParameterDraws(whole.setting.space, whole.objectives, 1, "random").of_generation(0, 2, {}) != few


def test_a_grid_ends_when_all_its_points_were_tried() -> None:
    grid = nu.tune({"beta": [0.001, 0.1]}, X, Y, U, n_trials=9, sampler="grid", **SMALL)
    assert sorted(each.parameters["beta"] for each in grid.trials) == [0.001, 0.1]


def test_a_trial_that_diverges_is_written_down_and_the_search_goes_on() -> None:
    space = {"learning_rate": {"choice": [1e-2, 1e30]}}
    found = nu.tune(space, X, Y, U, n_trials=2, sampler="grid", **SMALL)
    bad = next(each for each in found.trials if each.parameters["learning_rate"] == 1e30)
    assert "diverged by step" in bad.reason
    assert np.isnan(bad.value)
    assert found.best is not bad
    assert "1 came to nothing" in found.verdict


def test_two_objectives_give_a_front_that_nothing_beats() -> None:
    found = search(objective=("nll", "accuracy"))
    points = np.array([(-1, 1) * np.array(each.values) for each in found.front])
    everything = np.concatenate([np.stack([-t.curve["nll"], t.curve["accuracy"]], axis=1) for t in found.trials])
    for point in points:
        assert not ((everything >= point).all(axis=1) & (everything > point).any(axis=1)).any()
    assert (np.diff(points[:, 0]) <= 0).all()
    assert (np.diff(points[:, 1]) >= 0).all()


def test_what_is_expected_is_scored_where_nothing_was_picked(whole) -> None:
    trials = whole.trials
    sizes = np.array([30, 30])  # two folds of sixty rows
    for each in trials:
        np.testing.assert_allclose(each.scores[..., 1:] @ sizes / 60, each.scores[..., 0], rtol=1e-12)
    by_part = np.concatenate([each.scores[:, 0, 1:] for each in trials])
    by_part = by_part[np.isfinite(by_part).all(axis=1)]
    by_hand = (by_part[by_part[:, 1].argmin(), 0] + by_part[by_part[:, 0].argmin(), 1]) / 2
    assert whole.expected == pytest.approx(by_hand)


def test_the_best_becomes_an_ensemble_with_its_parameters(whole, tmp_path) -> None:
    ensemble = whole.fit(n_members=2)
    assert ensemble.n_members == 2
    assert ensemble.training["learning_rate"] == whole.best.parameters["learning_rate"]
    assert ensemble.training["n_steps"] == whole.n_steps
    ensemble.save(tmp_path / "model")
    assert nu.Ensemble.load(tmp_path / "model").training["verdict"] == whole.verdict


def test_a_page_has_all_that_was_found(whole, tmp_path) -> None:
    from nu_ensembles.searches.page import write_search_page

    write_search_page(tmp_path / "page.html", whole, "nu-ensembles tune", 1.0, {})
    page = (tmp_path / "page.html").read_text()
    assert whole.verdict.split(":")[0] in page
    assert "Parallel coordinates" in page


class TestLeases:
    """Who has a trial, and who may take it over."""

    @pytest.fixture
    def engine(self, tmp_path: Path) -> Any:
        sqlalchemy = pytest.importorskip("sqlalchemy")
        engine = sqlalchemy.create_engine(f"sqlite:///{tmp_path / 'leases.db'}")
        yield engine
        engine.dispose()

    def test_a_trial_is_one_workers(self, engine) -> None:
        one, two = Leases(engine, 1), Leases(engine, 1)
        assert one.take([0, 1]) == [0, 1]
        assert two.take([0, 1, 2]) == [2]
        one.give_back([1, 2])  # 2 is not its own
        assert two.take([0, 1, 2]) == [1]
        assert Leases(engine, 2).take([0]) == [0]  # another search

    def test_one_whose_holder_is_silent_is_taken_over_and_one_that_beats_is_not(self, engine, monkeypatch) -> None:
        now = [0.0]
        monkeypatch.setattr("nu_ensembles.searches.leases.time.monotonic", lambda: now[0])
        dead, alive, waiting = (Leases(engine, 1, seconds=10) for _ in range(3))
        assert (dead.take([0]), alive.take([1])) == ([0], [1])
        assert waiting.take([0, 1]) == []
        now[0] = 11.0
        alive._beat()
        assert waiting.take([0, 1]) == [0]
        assert dead.take([0]) == []

    def test_an_earlier_life_in_the_same_place_is_over(self, engine) -> None:
        assert Leases(engine, 1, place="host:/run").take([0]) == [0]
        assert Leases(engine, 1, place="host:/other").take([0]) == []
        assert Leases(engine, 1, place="host:/run").take([0]) == [0]
