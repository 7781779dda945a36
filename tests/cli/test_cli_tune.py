"""`nu-ensembles tune`: from a file and a space to a model that predicts; and what is said of what cannot be."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("optuna")

QUICK = ("--hidden", "4", "--max-iter", "4", "--cv", "2", "--fold-members", "1", "--members", "2", "--quiet")


def space(desk, text: str):
    path = desk.folder / "space.yaml"
    path.write_text(text)
    return path


def test_a_search_ends_in_a_model_and_is_not_done_twice(desk):
    file = space(desk, "learning_rate: {log: [1e-3, 1e-1]}\n")
    out = desk.folder / "found"
    words = ("tune", desk.train, "--target", "kind", "--space", file, "--trials", "3", "--out", out, *QUICK)
    first = desk.run(*words, "--json")
    assert first.code == 0, first.err
    found = json.loads(first.out)
    assert (found["n_trials"], found["n_left"]) == (3, 0)
    assert {each.name for each in out.iterdir()} == {"search.db", "results.json", "report.html", "model"}
    written = (out / "model" / "manifest.json").stat().st_mtime_ns
    again = json.loads(desk.run(*words, "--json").out)
    assert again["best"] == found["best"]
    assert (out / "model" / "manifest.json").stat().st_mtime_ns == written
    assert desk.run("predict", out / "model", desk.test).code == 0


def test_a_misspelt_parameter_is_told_with_the_right_one(desk):
    file = space(desk, "learnin_rate: {log: [1e-3, 1e-1]}\n")
    outcome = desk.run("tune", desk.train, "--target", "kind", "--space", file, *QUICK)
    assert outcome.code == 2
    assert "Did you mean 'learning_rate'" in outcome.err
    assert not (desk.folder / "train-search").exists()


def test_a_password_is_not_shown(monkeypatch):
    from nu_ensembles.cli.tune import _own_words

    monkeypatch.setattr("sys.argv", ["x", "tune", "a.csv", "--storage", "postgresql://me:secret@h/d", "--seed", "1"])
    assert _own_words() == ["tune", "a.csv", "--storage", "DATABASE", "--seed", "1"]
    monkeypatch.setattr("sys.argv", ["x", "tune", "a.csv", "--storage=postgresql://me:secret@h/d"])
    assert _own_words() == ["tune", "a.csv", "--storage=DATABASE"]
