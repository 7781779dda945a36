"""`nu-ensembles report MODEL DATA`: a page on one's own rows, with labels where the file has some."""

from __future__ import annotations

import json

import pytest


def test_a_page_on_labelled_rows_is_named_after_them(desk, trained, monkeypatch):
    monkeypatch.chdir(desk.folder)
    outcome = desk.run("report", trained, "test.csv", "--json")
    assert (outcome.code, outcome.err) == (0, "")
    assert json.loads(outcome.out) == {
        "command": "report",
        "report": "test-report.html",
        "n_rows": 30,
        "n_labelled": 30,
    }
    text = (desk.folder / "test-report.html").read_text(encoding="utf-8")
    for part in ("test.csv: how right, how sure", "Class by class", "cat", "dog", "How it was trained"):
        assert part in text


def test_a_file_without_labels_has_a_page_too(desk, trained):
    page = desk.folder / "page.html"
    outcome = desk.run("report", trained, desk.unlabeled, "--out", page)
    assert (outcome.code, outcome.out) == (0, f"The page is {page}\n")
    assert "unlabeled.csv: how sure" in page.read_text(encoding="utf-8")


def test_rows_with_some_labels_are_scored_on_these(desk, trained):
    X, y = desk.rows(30, 2)
    desk.write("some.csv", X, ["" if row < 10 else y[row] for row in range(30)])
    outcome = desk.run("report", trained, desk.folder / "some.csv", "--out", desk.folder / "p.html", "--json")
    assert json.loads(outcome.out)["n_labelled"] == 20


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["MODEL"], "holds a model, whose page is of one file of rows: give the rows to report on, too."),
        (["MODEL", "a.csv", "b.csv"], "of one file of rows: 2 files were given."),
        (["MODEL", "absent.csv"], "absent.csv does not exist"),
        (["MODEL", "test.csv", "--target", "sort"], "has no target column 'sort'"),
        (["absent", "test.csv"], "absent does not exist: name the folder of a model, of a study or of the demo"),
        (["EMPTY", "--target", "kind"], "holds no model, so --target and --drop mean nothing; leave them out."),
    ],
)
def test_what_cannot_be_drawn_is_refused(desk, trained, monkeypatch, arguments, says):
    monkeypatch.chdir(desk.folder)
    (desk.folder / "empty").mkdir()
    places = {"MODEL": trained, "EMPTY": desk.folder / "empty"}
    before = desk.listing()
    outcome = desk.run("report", *(places.get(each, each) for each in arguments))
    assert (outcome.code, outcome.out, outcome.err.count("\n")) == (2, "", 1)
    assert says in outcome.err
    assert desk.listing() == before


def test_a_label_that_the_model_does_not_know_is_named(desk, trained):
    X, _ = desk.rows(4, 2)
    desk.write("birds.csv", X, ["cat", "dog", "bird", "cat"])
    outcome = desk.run("report", trained, desk.folder / "birds.csv")
    assert (outcome.code, outcome.err.count("\n")) == (2, 1)
    assert "'bird'" in outcome.err
