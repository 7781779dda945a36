"""`nu-ensembles confirm`: labelled rows against what a fit expected, and what fit says of rows from elsewhere."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pytest

import nu_ensembles as nu


@pytest.fixture
def elsewhere(desk):
    """Unlabelled rows that are larger than any labelled one."""
    X, _ = desk.rows(60, 5)
    return desk.write("elsewhere.csv", X + 3.0)


def test_fit_names_rows_to_label_and_confirm_judges_them(desk, elsewhere):
    result = json.loads(desk.fit("--unlabeled", elsewhere, "--json").out)
    assert "unlabelled rows differ from the labelled ones" in result["verdict"]
    assert len(set(result["label_next"])) == 20
    assert min(result["label_next"]) >= 1
    X, y = desk.rows(60, 5)
    rows = np.array(result["label_next"]) - 1
    labelled = desk.write("labelled.csv", X[rows] + 3.0, y[rows])
    found = json.loads(desk.run("confirm", desk.out, labelled, "--json").out)
    predicted = nu.Ensemble.load(desk.out).predict(X[rows] + 3.0)
    assert found["accuracy"] == pytest.approx((predicted == y[rows]).mean())
    assert found["stood"] is (found["low"] <= found["accuracy"] <= found["high"])
    assert desk.run("confirm", desk.out, labelled).out.startswith("The expectation ")


def test_a_model_without_unlabelled_rows_expects_nothing(desk, trained):
    saved = nu.Ensemble.load(trained)
    notes = {name: value for name, value in saved.training.items() if name != "classifier"}
    bare = dataclasses.replace(saved, training=notes)
    bare.save(desk.folder / "bare")
    outcome = desk.run("confirm", desk.folder / "bare", desk.test)
    assert outcome.code == 2
    assert "expects nothing of its unlabelled rows" in outcome.err
