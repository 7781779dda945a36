"""Tables as they are on the command line: from a csv file with text, dates and gaps to predictions with identifiers."""

from __future__ import annotations

import csv
import gzip
import io
import json
import sys

import numpy as np
import pytest

import nu_ensembles as nu

HEADER = ["id", "height", "city", "day", "kind"]


def rows(n_rows, seed, unlabelled=0):
    """Rows of text: an identifier, a number with gaps, a category, a date and the label."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(n_rows):
        code = number % 2
        height = "?" if number % 7 == 3 else f"{rng.normal() + 2 * code:.3f}"
        city = "Oslo" if rng.random() < 0.2 + 0.6 * code else "Rome"
        kind = "" if number < unlabelled else ("cat", "dog")[code]
        made.append([f"row-{seed}-{number}", height, city, f"2024-01-{number % 28 + 1:02}", kind])
    return made


def text(header, made, delimiter=","):
    file = io.StringIO()
    writer = csv.writer(file, delimiter=delimiter)
    writer.writerow(header)
    writer.writerows(made)
    return file.getvalue()


@pytest.fixture
def table(desk):
    """train.csv with mixed columns takes the place of the desk's; new.csv has rows to predict."""
    desk.train.write_text(text(HEADER, rows(24, 0)))
    desk.unlabeled.write_text(text(HEADER[:-1], [row[:-1] for row in rows(40, 1)]))
    desk.test.write_text(text(HEADER, rows(12, 2)))
    return desk


@pytest.fixture
def model(table):
    assert table.fit("--keep", "id").code == 0
    return table.out


def predictions(desk, model, name, *options):
    outcome = desk.run("predict", model, name, "--json", *options)
    assert outcome.code == 0, outcome.err
    return json.loads(outcome.out)


def test_a_mixed_table_trains_at_once_and_identifiers_are_left_out_with_a_note(table):
    outcome = table.fit()
    assert outcome.code == 0
    assert outcome.err.count("\n") == 1
    assert "warning: Columns of X are left out: 'id' (it is text with as many levels as rows" in outcome.err
    # A later file needs no identifiers.
    table.test.write_text(text(HEADER[1:], [row[1:] for row in rows(12, 2)]))
    outcome = table.run("evaluate", table.out, table.test)
    assert (outcome.code, outcome.err) == (0, "")


def test_kept_columns_go_to_the_predictions(table, model):
    out = table.folder / "p.csv"
    outcome = table.run("predict", model, table.test, "--out", out)
    assert (outcome.code, outcome.err) == (0, "")
    with open(out, newline="") as file:
        written = list(csv.DictReader(file))
    assert list(written[0]) == ["id", "prediction", "confidence", "p_cat", "p_dog"]
    assert [row["id"] for row in written] == [row[0] for row in rows(12, 2)]
    assert predictions(table, model, table.test)["kept"]["id"][0] == "row-2-0"
    assert table.run("predict", model, table.test).out.splitlines()[1].startswith("row-2-0")
    # A feature may be kept as well, and a file need not have the identifiers.
    assert predictions(table, model, table.test, "--keep", "city")["kept"]["city"][:1] == [rows(12, 2)[0][2]]
    table.test.write_text(text(HEADER[1:], [row[1:] for row in rows(12, 2)]))
    assert "kept" not in predictions(table, model, table.test)


def test_a_kept_column_may_not_take_the_name_of_a_prediction(table, model):
    table.test.write_text(table.test.read_text().replace("id,", "confidence,", 1))
    outcome = table.run("predict", model, table.test, "--keep", "confidence", "--out", table.folder / "p.csv")
    assert outcome.code == 2
    assert "The column 'confidence' cannot be kept, because the predictions have one of that name" in outcome.err


def test_columns_come_in_any_order_from_any_kind_of_file(table, model, monkeypatch):
    expected = predictions(table, model, table.test)["probabilities"]
    plain = rows(12, 2)
    turned = [row[::-1] for row in plain]
    commas = [[row[0], row[1].replace(".", ","), *row[2:]] for row in plain]
    files = {
        "turned.csv": text(HEADER[::-1], turned).encode(),
        "german.csv": text(HEADER, commas, ";").encode("utf-8-sig"),
        "tabs.tsv": text(HEADER, plain, "\t").encode(),
        "packed.csv.gz": gzip.compress(text(HEADER, plain).encode()),
        "packed.tsv.gz": gzip.compress(text(HEADER, plain, "\t").encode()),
    }
    for name, content in files.items():
        (table.folder / name).write_bytes(content)
        assert predictions(table, model, table.folder / name)["probabilities"] == expected, name
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(files["turned.csv"])))
    assert predictions(table, model, "-")["probabilities"] == expected


def test_the_saved_ensemble_takes_frames_with_the_same_columns(table, model):
    pa = pytest.importorskip("pyarrow")
    names, values = HEADER[1:4][::-1], list(zip(*rows(12, 2), strict=True))
    height = [None if cell == "?" else float(cell) for cell in values[1]]
    day = [np.datetime64(cell).astype(object) for cell in values[3]]
    frame = pa.table({"height": height, "city": list(values[2]), "day": day}).select(names)
    found = nu.Ensemble.load(model).predict_proba(frame)
    np.testing.assert_array_equal(found, np.float32(predictions(table, model, table.test)["probabilities"]))


def test_unknown_words_and_new_columns_are_taken(table, model):
    table.test.write_text(text([*HEADER, "mood"], [[*row[:2], "Paris", *row[3:], "good"] for row in rows(12, 2)]))
    outcome = table.run("predict", model, table.test)
    assert outcome.code == 0
    assert "has columns that the training rows had not, which are ignored: 'mood'" in outcome.err


def test_rows_without_a_label_are_unlabelled_rows(table):
    table.train.write_text(text(HEADER, rows(34, 0, unlabelled=10)))
    outcome = table.fit("--keep", "id", "--json")
    assert outcome.code == 0
    assert "10 of 34 rows without a label" in outcome.err
    training = nu.Ensemble.load(table.out).training
    assert (training["n_labelled"], training["n_unlabelled"]) == (24, 50)
    table.test.write_text(text(HEADER, rows(12, 2, unlabelled=2)))
    assert table.run("evaluate", table.out, table.test).out.startswith("10 rows, 2 members")


def test_columns_are_declared_and_read_so_ever_after(table):
    codes = [[*row[:2], f"{number % 3:03}", *row[3:]] for number, row in enumerate(rows(24, 0))]
    table.train.write_text(text(HEADER, codes))
    table.unlabeled.write_text(text(HEADER[:-1], [row[:-1] for row in codes]))
    declared = ("--column-type", "city=category", "--column-type", "height=number", "--drop", "id")
    assert table.fit(*declared).code == 0
    ensemble = nu.Ensemble.load(table.out)
    assert ensemble.describe_columns()["city"].startswith("category, an indicator each for '000', '001', '002'")
    assert table.run("predict", table.out, table.train).code == 0


def test_the_model_goes_to_a_folder_named_after_the_file_by_default(table, monkeypatch):
    monkeypatch.chdir(table.folder)
    assert table.run("fit", "train.csv", "--target", "kind", "--keep", "id", *table.quick, "--beta", "0").code == 0
    assert nu.Ensemble.load(table.folder / "train-model").classes.tolist() == ["cat", "dog"]
    assert "train-model exists already" in table.run("fit", "train.csv", "--target", "kind").err


@pytest.mark.parametrize("name", ["species", "Label", "outcome", "last"])
def test_a_forgotten_target_is_guessed(table, name):
    table.train.write_text(text([*HEADER[:-1], name], rows(24, 0)))
    outcome = table.run("fit", table.train, "--out", table.out)
    assert outcome.code == 2
    assert f"name their column with --target (did you mean --target {name}?)" in outcome.err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (("--column-type", "city"), "--column-type takes COLUMN=TYPE, as in zip=category or size=S,M,L, not 'city'"),
        (("--column-type", "city=word"), "Unknown type of the column 'city', 'word'"),
        (("--column-type", "town=category"), "has no column 'town' to declare"),
        (("--column-type", "height=date"), "where dates were expected"),
        (("--keep", "ident"), "has no column 'ident' to keep: name one of 'id'"),
        (("--unlabeled", "absent.csv"), "absent.csv does not exist"),
    ],
)
def test_what_cannot_be_meant_is_refused(table, options, says):
    outcome = table.fit(*options)
    assert (outcome.code, outcome.out) == (2, "")
    assert says in outcome.err
    assert outcome.err.count("\n") == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda row: [*row[:2], "Oslo" if row[4] == "cat" else "Rome", row[3], row[4]], None),
        (lambda row: [*row[:2], row[4], row[3], row[4]], "The column 'city' of X equals the labels"),
        (lambda row: [*row[:4], "cat"], "one class only ('cat')"),
        (lambda row: [*row[:4], ""], "holds no label at all"),
        (
            lambda row: [row[0], "tall" if row[0] == "row-0-5" else "1.5" + row[0][6:], *row[2:]],
            "mixes numbers and text",
        ),
    ],
)
def test_columns_and_labels_that_make_no_sense_are_named(table, change, says):
    table.train.write_text(text(HEADER, map(change, rows(24, 0))))
    outcome = table.fit("--keep", "id")
    if says is None:
        assert outcome.code == 0
        assert "warning: The column 'city' of X says what the labels say in other words" in outcome.err
    else:
        assert (outcome.code, outcome.err.count("\n")) == (2, 1)
        assert says in outcome.err


def test_check_looks_at_mixed_tables_too(table):
    outcome = table.run("check", table.train, "--unlabeled", table.unlabeled, "--target", "kind", "--keep", "id")
    assert outcome.code == 0
    assert "labels" in outcome.out
