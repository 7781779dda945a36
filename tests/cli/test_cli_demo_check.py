"""`nu-ensembles demo` and `nu-ensembles check`, as commands; what they compute is tested where it is computed."""

from __future__ import annotations

import json

import pytest


class Result:
    """What the commands need of a demo's result."""

    def to_dict(self):
        return {"study": "demo", "verdict": ["It helps."]}

    def save(self, folder):
        folder.mkdir()
        for name in ("report.html", "results.json"):
            (folder / name).write_text("new")


@pytest.fixture
def calls(monkeypatch):
    """Stands in for the training and the table; the list of how `run_demo` was called."""
    seen = []

    def run_demo(n_seeds, seed, *, verbose, command):
        seen.append((n_seeds, seed, verbose, command))
        return Result()

    monkeypatch.setattr("nu_ensembles_studies.demo.run.run_demo", run_demo)
    monkeypatch.setattr("nu_ensembles_studies.demo.terminal.print_demo", lambda _: print("a table"))
    return seen


def test_the_demo_prints_its_table_and_where_the_report_is(desk, calls):
    out = desk.folder / "report"
    outcome = desk.run("demo", "--seeds", "2", "--seed", "7", "--out", out)
    assert (outcome.code, outcome.out) == (0, f"a table\n\nThe report is {out / 'report.html'}\n")
    assert calls == [(2, 7, 1, "nu-ensembles demo --seeds 2 --seed 7")]
    assert (out / "report.html").exists()


def test_the_demo_prints_one_json_object(desk, calls):
    outcome = desk.run("demo", "--out", desk.folder / "report", "--json", "--quiet")
    assert json.loads(outcome.out) == {
        "command": "demo",
        "out": str(desk.folder / "report"),
        "study": "demo",
        "verdict": ["It helps."],
    }
    assert calls[0][2] == 0


def test_an_earlier_report_is_replaced_only_when_asked_for(desk, calls):
    out = desk.folder / "report"
    out.mkdir()
    for name in ("report.html", "results.json"):
        (out / name).write_text("old")
    refused = desk.run("demo", "--out", out)
    assert (refused.code, calls) == (2, [])
    assert "add --overwrite" in refused.err
    assert (out / "report.html").read_text() == "old"
    assert desk.run("demo", "--out", out, "--overwrite").code == 0
    assert (out / "report.html").read_text() == "new"
    assert [path.name for path in desk.folder.iterdir() if path.is_dir()] == ["report"]


def test_a_folder_that_holds_no_report_is_never_overwritten(desk, calls):
    outcome = desk.run("demo", "--out", desk.folder, "--overwrite")
    assert (outcome.code, calls) == (2, [])
    assert "holds no earlier report" in outcome.err
    assert desk.train.exists()


def test_an_earlier_report_comes_back_if_the_new_one_fails(desk, calls, monkeypatch):
    out = desk.folder / "report"
    assert desk.run("demo", "--out", out).code == 0

    def full_disk(self, folder):
        raise OSError(28, "No space left on device", str(folder))

    monkeypatch.setattr(Result, "save", full_disk)
    outcome = desk.run("demo", "--out", out, "--overwrite")
    assert outcome.code == 2
    assert "No space left on device" in outcome.err
    assert (out / "report.html").read_text() == "new"


def test_check_gives_a_recommendation_and_the_figures_behind_it(desk):
    outcome = desk.run("check", desk.train, "--unlabeled", desk.unlabeled, "--target", "kind", "--max-iter", "5")
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0].startswith(("Something to mend", "Hard to say", "Nothing to mend"))
    assert any(line.startswith("This is no forecast: on data sets left out, no rule") for line in lines)
    assert "labels                 24; 2 classes of 12 to 12" in lines
    assert any(line.startswith("standard, last step    5 steps: accuracy 0.") for line in lines)


def test_check_prints_one_json_object_and_writes_nothing(desk):
    before = desk.listing()
    arguments = (desk.train, "--unlabeled", desk.unlabeled, "--target", "kind", "--max-iter", "5", "--json")
    result = json.loads(desk.run("check", *arguments).out)
    assert result["command"] == "check"
    assert result["evidence"]["labels_per_class"] == {"cat": 12, "dog": 12}
    assert set(result["evidence"]["last_step"]["overconfidence"]) == {"value", "low", "high"}
    assert desk.listing() == before
