"""`nu-ensembles predict` and `nu-ensembles evaluate` on a saved model."""

from __future__ import annotations

import csv
import dataclasses
import json

import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.cli.evaluate import HEADLINES, METRICS
from nu_ensembles.ensemble.scoring import OF_MEMBERS
from nu_ensembles.metrics import evaluate


def test_columns_are_matched_by_name_whatever_their_order(desk, trained):
    X, y = desk.rows(30, 2)
    desk.write("test.csv", X, y)
    desk.write("turned.csv", X[:, ::-1], columns=("weight", "width", "height"))
    straight, turned = (
        json.loads(desk.run("predict", trained, desk.folder / name, "--json").out)["probabilities"]
        for name in ("test.csv", "turned.csv")
    )
    assert straight == turned
    np.testing.assert_array_equal(np.float32(straight), nu.Ensemble.load(trained).predict_proba(X))


@pytest.mark.parametrize("ending", ["csv", "npz", "parquet"])
def test_predictions_are_written_with_the_probability_of_every_class(desk, trained, ending):
    out = desk.folder / f"predictions.{ending}"
    outcome = desk.run("predict", trained, desk.test, "--out", out)
    assert outcome.code == 0
    assert outcome.out.startswith(f"30 predictions in {out}, mean confidence 0.")
    assert out.exists()


def test_a_csv_file_of_predictions_reads_back(desk, trained):
    out = desk.folder / "predictions.csv"
    desk.run("predict", trained, desk.test, "--out", out)
    with open(out, newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["prediction", "confidence", "p_cat", "p_dog"]
    expected = nu.Ensemble.load(trained).predict_proba(desk.rows(30, 2)[0])
    np.testing.assert_array_equal([np.float32(row["p_cat"]) for row in rows], expected[:, 0])


def test_without_a_file_the_first_ten_rows_are_shown(desk, trained):
    lines = desk.run("predict", trained, desk.test).out.splitlines()
    assert lines[0].split() == ["row", "prediction", "confidence", "p_cat", "p_dog"]
    assert len(lines) == 12
    assert lines[-1] == "… 20 more rows; --out FILE writes all of them."


def test_a_model_saved_from_arrays_takes_columns_in_their_order(desk, trained):
    bare = dataclasses.replace(nu.Ensemble.load(trained), training={})
    bare.save(desk.folder / "bare")
    outcome = desk.run("predict", desk.folder / "bare", desk.test, "--drop", "kind", "--json")
    expected = nu.Ensemble.load(trained).predict_proba(desk.rows(30, 2)[0])
    np.testing.assert_array_equal(np.float32(json.loads(outcome.out)["probabilities"]), expected)


def test_evaluate_knows_the_target_and_prints_every_metric_with_direction_and_meaning(desk, trained, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    outcome = desk.run("evaluate", trained, desk.test, "--all")
    assert outcome.code == 0
    lines = outcome.out.splitlines()
    assert lines[0] == "30 rows, 2 members, 2 classes"
    assert [line.split()[0] for line in lines[3:]] == list(METRICS)
    assert lines[3].endswith("higher  share of rows whose most probable class is right")


def test_five_numbers_come_first_and_fit_a_terminal(desk, trained, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = desk.run("evaluate", trained, desk.test, "--intervals").out.splitlines()
    assert [line.split()[0] for line in lines[3:] if line[:1].isalpha()] == list(HEADLINES)
    assert lines[-1] == "--all shows the other 22 metrics."
    assert max(map(len, lines)) <= 80
    assert max(map(len, desk.run("evaluate", trained, desk.test, "--intervals", "--all").out.splitlines())) <= 80


def test_evaluate_gives_the_numbers_of_the_library(desk, trained):
    X, y = desk.rows(30, 2)
    scores = json.loads(desk.run("evaluate", trained, desk.test, "--target", "kind", "--json").out)["metrics"]
    expected = evaluate(nu.Ensemble.load(trained).predict_members(X), (y == "dog").astype(int))
    assert scores == expected
    assert set(scores) == set(METRICS)


def test_intervals_are_added_on_request(desk, trained):
    result = json.loads(desk.run("evaluate", trained, desk.test, "--intervals", "--json").out)
    assert result["interval_level"] == 0.95
    assert result["metrics"]["nll_low"] <= result["metrics"]["nll"] <= result["metrics"]["nll_high"]
    assert "95 % interval" in desk.run("evaluate", trained, desk.test, "--intervals").out


def test_a_temperature_changes_the_scores_of_the_mean_and_not_those_of_the_members(desk, trained):
    cold = dataclasses.replace(nu.Ensemble.load(trained), temperature=0.5)
    cold.save(desk.folder / "cold")
    before, after = (
        json.loads(desk.run("evaluate", model, desk.test, "--json").out)["metrics"]
        for model in (trained, desk.folder / "cold")
    )
    assert after["nll"] == pytest.approx(evaluate(cold.predict_proba(desk.rows(30, 2)[0]), np.arange(30) % 2)["nll"])
    assert after["nll"] != before["nll"]
    assert {name: after[name] for name in OF_MEMBERS} == {name: before[name] for name in OF_MEMBERS}


def test_what_does_not_exist_is_null_in_json_and_a_dash_in_the_table(desk, trained):
    # One row that is right has no error to rank: error_auroc is undefined.
    X, y = desk.rows(30, 2)
    right = nu.Ensemble.load(trained).predict(X) == y
    desk.write("one.csv", X[right][:1], y[right][:1])
    outcome = desk.run("evaluate", trained, desk.folder / "one.csv", "--json")
    assert json.loads(outcome.out)["metrics"]["error_auroc"] is None
    table = desk.run("evaluate", trained, desk.folder / "one.csv").out
    assert next(line for line in table.splitlines() if line.startswith("error_auroc")).split()[1] == "–"


def test_labels_that_look_like_numbers_match_a_model_whose_classes_are_text(desk):
    X, _ = desk.rows(24, 0)
    desk.write("train.csv", X, [["1", "2", "x"][index % 3] for index in range(24)])
    desk.write("test.csv", X[:6], ["1", "2"] * 3)
    assert desk.fit().code == 0
    assert desk.run("evaluate", desk.out, desk.folder / "test.csv").code == 0
