"""The cells of the study `ensembles`: which there are, and how one is scored under either budget."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.methods import METHODS, build
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.study import Place, cells_of
from nu_ensembles_studies.experiments import ensembles
from nu_ensembles_studies.measure import of_methods
from nu_ensembles_studies.registry import STUDIES
from nu_ensembles_studies.run.study_run import run_study
from nu_ensembles_studies.shifts import load, names

CELL = StudyCell("wine.same", 30, "mlp", "single", seed=0, epochs=(12,), n_members=2, batch_size=16, kind="of_methods")


def test_every_method_of_the_package_has_cells_and_every_place_is_a_shift() -> None:
    assert set(ensembles.ALL) == set(METHODS)
    assert set(ensembles.PLACES) <= set(names())
    study = STUDIES["ensembles"]
    cells = cells_of(study.declare(StudyOptions(seeds=5, backend="cpu")))
    assert {cell.method for cell in cells} == set(METHODS)
    assert {(cell.dataset, cell.model) for cell in cells if cell.model == "lenet"} == {
        (name, "lenet") for name in ensembles.DIGITS
    }
    images = {cell.batch_size * (2 if build(cell.method, **dict(cell.options)).uses_unlabeled else 1) for cell in cells}
    assert images == {ensembles.IMAGES_A_STEP}


def test_methods_stand_only_where_they_can_be_asked_for() -> None:
    table, images = Place("wine.same", 100, "mlp", ensembles.STEPS_EQUAL), Place("digits.same", 100, "lenet")
    assert not ensembles.has_place("transformations", table)
    assert ensembles.has_place("transformations", images)
    assert not ensembles.has_place("multi_symmetry", table)
    assert not ensembles.has_place("mc_dropout", images)
    assert not ensembles.has_place("hmc", images)
    assert ensembles.has_place("hmc", table)
    assert not ensembles.has_place("hmc", table._replace(protocol=ensembles.TIME_EQUAL))


def test_a_cell_is_scored_on_the_deployment_and_on_the_source() -> None:
    found = of_methods.scores_at_equal_steps(CELL, None)
    assert found["time"]["steps"] == 12
    assert found["time"]["n_members"] == 1
    assert found["test"]["nll"] != found["source"]["nll"]


@pytest.mark.parametrize(("ratio", "steps"), [(0.5, 6), (3.0, 36), (1e6, 120), (1e-6, 1)])
def test_as_much_time_is_as_many_steps_as_fit_into_it(
    monkeypatch: pytest.MonkeyPatch, ratio: float, steps: int
) -> None:
    monkeypatch.setattr(of_methods, "_seconds_of", lambda cell, _: ratio if cell.method == "standard" else 1.0)
    monkeypatch.setattr(of_methods, "_scores", lambda cell, rows, steps: {"time": {"steps": steps}})
    found = of_methods.scores_at_equal_time(dataclasses.replace(CELL, kind="of_methods_in_time"), None)
    assert found["time"] == {"steps": steps, "times_a_standard_step": 1 / ratio}


def test_a_step_is_timed_once_for_all_seeds_and_shifts_with_as_many_images(monkeypatch: pytest.MonkeyPatch) -> None:
    timed: list[StudyCell] = []
    monkeypatch.setattr(of_methods, "_seconds_of", lambda cell, _: timed.append(cell) or 1.0)
    nu_cell = dataclasses.replace(CELL, method="nu", options=(("beta", 0.1),))
    for shift, seed in (("same", 1), ("cluster", 2)):
        of_methods.times_a_standard_step(dataclasses.replace(nu_cell, dataset=f"wine.{shift}", seed=seed), None)
    assert set(timed) == {
        dataclasses.replace(nu_cell, seed=0),
        dataclasses.replace(CELL, method="standard", batch_size=2 * CELL.batch_size),
    }


def test_chains_are_told_as_one_level_of_numbers() -> None:
    told = {
        "acceptance": 0.9,
        "leapfrog_steps": 7,
        "predictions": {"r_hat_median": 1.0},
        "weights": {"ess_median": 3.0},
    }
    assert of_methods.chains_of(told) == {
        "acceptance": 0.9,
        "leapfrog_steps": 7,
        "predictions_r_hat_median": 1.0,
        "weights_ess_median": 3,
    }


def test_budgets_are_the_protocols_of_this_study_alone(tmp_path) -> None:
    study = STUDIES["ensembles"]
    cells = cells_of(study.declare(StudyOptions(seeds=1, protocols=("equal-time",), backend="cpu")))
    assert {cell.kind for cell in cells} == {"of_methods_in_time"}
    for name, protocol in (("ensembles", "matched"), ("table1", "equal-time")):
        with pytest.raises(InputError, match=f"Unknown protocol of this study '{protocol}'"):
            run_study(name, StudyOptions(protocols=(protocol,)), tmp_path / name)


def test_digits_come_as_images_of_grey_levels_up_to_one() -> None:
    rows = of_methods.rows_of(dataclasses.replace(CELL, dataset="digits.same"), None)
    assert rows.x.shape[1:] == (8, 8)
    assert rows.x.max() == 1
    flat = load("digits.same", 0, 30).x
    np.testing.assert_allclose(rows.x.reshape(len(flat), -1), flat / 16)
