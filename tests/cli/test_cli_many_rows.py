"""Rows of a folder of parquet files on the command line: fitted on, predicted, and refused in one sentence."""

from __future__ import annotations

import json

import numpy as np
import pytest

from nu_ensembles.datasets import row_store
from nu_ensembles.datasets.arrow_pieces import ParquetPiece
from nu_ensembles.problem import lazily

pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")


@pytest.fixture(autouse=True)
def always_lazy(tmp_path_factory, monkeypatch):
    """So few rows would be read into memory."""
    monkeypatch.setattr(lazily, "FEW_BYTES", 0)
    monkeypatch.setenv(row_store.FOLDER, str(tmp_path_factory.mktemp("stored")))


def write(desk, name, seed, **others):
    rows, _ = desk.rows(40, seed)
    columns = {"height": rows[:, 0], "width": rows[:, 1], "weight": rows[:, 2], **others}
    (desk.folder / "rows").mkdir(exist_ok=True)
    pq.write_table(pa.table({key: value for key, value in columns.items() if value is not None}), desk.folder / name)


@pytest.fixture
def rows(desk):
    for number in range(3):
        write(desk, f"rows/{number}.parquet", 10 + number)
    return desk.folder / "rows"


def refused(desk, outcome, *says):
    assert (outcome.code, outcome.out) == (2, ""), outcome
    assert outcome.err.splitlines()[-1].startswith("nu-ensembles: error: ")
    assert "Traceback" not in outcome.err
    for words in says:
        assert words in outcome.err.splitlines()[-1]


def test_a_folder_is_fitted_on_as_the_same_rows_in_one_file(desk, rows):
    np.save(desk.folder / "whole.npy", np.zeros(0))
    pq.write_table(
        pa.concat_tables([pq.read_table(file) for file in sorted(rows.iterdir())]), desk.folder / "u.parquet"
    )
    found = {}
    for source in (rows, desk.folder / "u.parquet"):
        out = desk.folder / f"from-{source.stem}"
        outcome = desk.fit("--unlabeled", source, "--out", out)
        assert outcome.code == 0, outcome.err
        found[source] = json.loads(desk.run("predict", out, desk.test, "--json").out)["probabilities"]
    assert found[rows] == found[desk.folder / "u.parquet"]


@pytest.mark.parametrize(
    ("others", "says"),
    [
        ({"weight": None}, ("2.parquet lacks the column 'weight' of", "give files of the same columns")),
        ({"age": np.zeros(40)}, ("2.parquet has a column 'age' that",)),
        ({"width": ["wide"] * 40}, ("'width' holds text in", "numbers in")),
    ],
)
@pytest.mark.parametrize("command", ["fit", "predict"])
def test_files_whose_columns_disagree(desk, rows, trained, command, others, says):
    write(desk, "rows/2.parquet", 12, **others)
    before = desk.listing()
    if command == "fit":
        outcome = desk.fit("--unlabeled", rows)
    else:
        outcome = desk.run("predict", trained, rows, "--out", desk.folder / "predicted")
    refused(desk, outcome, *says)
    assert desk.listing() == before


def test_columns_that_the_training_rows_do_not_have(desk, rows):
    for number in range(3):
        write(desk, f"rows/{number}.parquet", 10 + number, weight=None)
    before = desk.listing()
    refused(desk, desk.fit("--unlabeled", rows), "lacks the column(s) 'weight'")
    assert desk.listing() == before


def test_a_folder_without_files(desk):
    (desk.folder / "rows").mkdir()
    before = desk.listing()
    refused(desk, desk.fit("--unlabeled", desk.folder / "rows"), "rows holds no", "check the path")
    refused(desk, desk.fit("--unlabeled", desk.folder / "rows/*.parquet"), "no file has a name like it")
    assert desk.listing() == before


@pytest.fixture
def disappearing(rows, monkeypatch):
    """The second file is away as soon as the first one has been read."""
    reading = ParquetPiece.batches

    def batches(piece, first, columns):
        yield from reading(piece, first, columns)
        if piece.path.name == "0.parquet" and (rows / "1.parquet").exists():
            (rows / "1.parquet").rename(rows.parent / "away")

    monkeypatch.setattr(ParquetPiece, "batches", batches)
    return rows


def test_a_file_that_disappears_while_it_is_fitted_on(desk, disappearing, monkeypatch):
    refused(desk, desk.fit("--unlabeled", disappearing), "1.parquet cannot be read any more", "put it back")
    assert not desk.out.exists()
    monkeypatch.undo()
    (desk.folder / "away").rename(disappearing / "1.parquet")
    assert desk.fit("--unlabeled", disappearing).code == 0


def test_a_file_that_disappears_while_it_is_predicted_costs_nothing_else(desk, disappearing, trained, monkeypatch):
    words = ("predict", trained, disappearing, "--out", desk.folder / "predicted", "--resume")
    refused(desk, desk.run(*words), "1.parquet cannot be read any more", "put it back")
    monkeypatch.undo()
    (desk.folder / "away").rename(disappearing / "1.parquet")
    outcome = desk.run(*words)
    assert outcome.code == 0, outcome.err
    assert pq.read_table(desk.folder / "predicted")["row"].to_pylist() == list(range(120))


def test_one_file_may_be_predicted_into_a_folder_too(desk, rows, trained):
    outcome = desk.run("predict", trained, rows / "0.parquet", "--out", desk.folder / "predicted")
    assert outcome.code == 0, outcome.err
    assert [each.name for each in (desk.folder / "predicted").glob("*.parquet")] == ["part-00000.parquet"]


@pytest.mark.slow
def test_processes_write_the_files_that_are_written_here(desk, rows, trained, monkeypatch):
    for place in ("here", "processes"):
        outcome = desk.run("predict", trained, rows, "--on", place, "--out", desk.folder / place)
        assert outcome.code == 0, outcome.err
    names = sorted(each.name for each in (desk.folder / "here").iterdir())
    assert names == sorted(each.name for each in (desk.folder / "processes").iterdir())
    for name in names:
        assert (desk.folder / "here" / name).read_bytes() == (desk.folder / "processes" / name).read_bytes()
    refused(
        desk, desk.run("predict", trained, desk.test, "--on", "processes", "--out", desk.folder / "x"), ".csv files"
    )
