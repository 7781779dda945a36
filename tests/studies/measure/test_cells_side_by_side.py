"""Cells that train side by side are the ensembles that `nu.fit` trains alone; one that fails stops no other."""

import dataclasses
from typing import Any

import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.measure.jobs import Arrived, Diverged
from nu_ensembles_studies.measure.parts import Parts
from nu_ensembles_studies.measure.tasks import program_key
from nu_ensembles_studies.measure.train_cells import Group

CELL = StudyCell(
    "blobs", 40, "mlp", "nu", seed=5, epochs=(2, 6), options=(("beta", 0.1),), n_members=2, split="published"
)
OTHER = dataclasses.replace(CELL, seed=9, options=(("beta", 0.5),), learning_rate=1e-2, epochs=(3,))


@pytest.fixture(scope="module")
def parts(blobs):
    x, y, u = blobs
    unknown = np.zeros(len(u), np.int64)
    return Parts(x, y, u, unknown, x[:5], y[:5], x[5:], y[5:], n_classes=3)


@pytest.fixture(scope="module")
def model():
    return nu.models.mlp(3, hidden=(4,))


def arrivals(parts, model, *cells, at_once=2) -> list[Any]:
    group = Group(cells, model, parts, parts.x, cells_at_once=at_once)
    return [each for chunk in group.chunks() for each in group.train(chunk, lambda steps: None)]


def alone(parts, model, cell, epochs):
    method = nu.methods.build(cell.method, **dict(cell.options))
    ensemble = nu.fit(
        model,
        parts.x,
        parts.y,
        parts.x_unlabeled,
        method,
        cell.n_members,
        epochs,
        cell.seed,
        learning_rate=cell.learning_rate,
    )
    return ensemble.predict_members(parts.x)


def test_seeds_betas_and_rates_train_together_as_each_does_alone(parts, model):
    found = {(each.cell, each.epochs): each.members for each in arrivals(parts, model, CELL, OTHER)}
    assert set(found) == {(CELL, 2), (CELL, 6), (OTHER, 3)}
    for (cell, epochs), members in found.items():
        np.testing.assert_allclose(members, alone(parts, model, cell, epochs), atol=1e-5)


def test_further_rows_can_be_predicted_when_a_cell_arrives(parts, model):
    (arrival,) = arrivals(parts, model, OTHER, at_once=1)
    assert isinstance(arrival, Arrived)
    np.testing.assert_allclose(arrival.predict(parts.x[:3]), arrival.members[:, :3], atol=1e-6)


def test_a_cell_that_diverges_says_where_and_the_others_go_on(parts, model):
    wild = dataclasses.replace(CELL, seed=1, learning_rate=1e38)
    found = arrivals(parts, model, CELL, wild)
    (failure,) = [each for each in found if isinstance(each, Diverged)]
    assert failure.cell == wild
    assert "not finite at step" in failure.reason
    good = {each.epochs: each.members for each in found if isinstance(each, Arrived) and each.cell == CELL}
    np.testing.assert_allclose(good[6], alone(parts, model, CELL, 6), atol=1e-5)


def test_only_what_one_program_can_train_shares_a_group():
    same = [CELL, OTHER, dataclasses.replace(CELL, weight_decay=0.1)]
    assert len({program_key(cell) for cell in same}) == 1
    others = [
        CELL,
        dataclasses.replace(CELL, method="standard", options=()),
        dataclasses.replace(CELL, options=(("beta", 0.1), ("labels", "shared"))),
        dataclasses.replace(CELL, batch_size=16),
        dataclasses.replace(CELL, n_train=20),
        dataclasses.replace(CELL, split="random"),
        dataclasses.replace(CELL, split="random", seed=6),
        dataclasses.replace(CELL, options=(("beta", 0.0),)),
    ]
    assert len({program_key(cell) for cell in others}) == 7  # β = 0 is the standard ensemble
