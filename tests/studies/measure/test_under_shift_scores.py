"""The cells of the study `deployment`: every method on one small shift."""

from __future__ import annotations

import pytest

from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.data_sets import data_set
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.experiments.deployment import SHIFTS, TITLES, rows
from nu_ensembles_studies.measure.under_shift import deployment_scores
from nu_ensembles_studies.shifts import CONFIRMING, role_of


def test_its_shifts_are_known_and_none_was_developed_on() -> None:
    assert all(data_set(name).title == name for name in SHIFTS)
    assert {role_of(name) for name in SHIFTS} == {CONFIRMING}


def test_of_photographs_a_convolutional_network_is_trained() -> None:
    options = StudyOptions(datasets=("wine.cluster", "cifar10.contrast-4"), models=("mlp",), members=5)
    tables, photographs = ([cell for each in row.candidates for cell, _ in each] for row in rows(options))
    assert {(cell.model, cell.n_members) for cell in tables} == {("mlp", 5)}
    assert {(cell.model, cell.n_members) for cell in photographs} == {("lenet", 2)}


@pytest.mark.slow
def test_every_method_is_scored_on_the_deployment_and_on_the_source() -> None:
    cell = StudyCell("wine.cluster", 30, "mlp", "nu", seed=0, epochs=(4,), n_members=2, kind="deployment")
    found = deployment_scores(cell, None)
    assert {"standard", *TITLES} <= set(found)
    assert {"source_standard", *(f"source_{name}" for name in TITLES)} <= set(found)
    assert found["oracle"]["nll"] <= found["standard"]["nll"]
    assert 0 <= found["choice"]["accuracy_there"] <= 1
    assert found["temperature_scaled"]["accuracy"] == found["standard"]["accuracy"]
