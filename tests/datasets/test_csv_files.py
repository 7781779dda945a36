"""csv files: what is read, and the one sentence for each way in which a file can be wrong."""

import csv
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.datasets import read_table
from nu_ensembles.errors import DamagedFileError, InputError


@pytest.fixture
def write(tmp_path):
    def to_file(content):
        path = tmp_path / "data.csv"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return to_file


def test_numbers_become_features_and_the_target_column_labels(write):
    table = read_table(write("height,species,width\n1.5,cat,2\n-3e2,dog,4\n"), target="species")
    assert table.X.tolist() == [[1.5, 2.0], [-300.0, 4.0]]
    assert table.X.dtype == np.float64
    assert table.y is not None
    assert table.y.tolist() == ["cat", "dog"]
    assert table.feature_names == ("height", "width")
    assert table.kind == "table"
    assert table.row_names is None


@pytest.mark.parametrize(
    ("cells", "kind", "labels"),
    [
        (["3", "-1", "0"], "i", [3, -1, 0]),
        (["1.0", "2", "3.5"], "f", [1.0, 2.0, 3.5]),
        (["007", "7"], "U", ["007", "7"]),
        (["1", "two"], "U", ["1", "two"]),
        (["none", "inf"], "U", ["none", "inf"]),
        (["1_0", "2"], "U", ["1_0", "2"]),
        (["99999999999999999999"], "U", ["99999999999999999999"]),
        ([" a ", "a"], "U", ["a", "a"]),
    ],
)
def test_labels_are_numbers_only_if_that_loses_nothing(write, cells, kind, labels):
    y = read_table(write("x,y\n" + "".join(f"0,{cell}\n" for cell in cells)), target="y").y
    assert y is not None
    assert y.dtype.kind == kind
    assert y.tolist() == labels


def test_without_a_target_there_are_no_labels_and_an_ignored_column_may_be_there_or_not(write):
    table = read_table(write("a,y\n1,cat\n"), ignore=["y", "z"])
    assert table.y is None
    assert table.feature_names == ("a",)


def test_expected_columns_are_put_in_their_order(write):
    table = read_table(write("c,a,b,y\n3,1,2,0\n"), columns=["a", "b", "c"], ignore=["y"])
    assert table.X.tolist() == [[1, 2, 3]]
    assert table.feature_names == ("a", "b", "c")


def test_dropped_columns_may_be_text(write):
    assert read_table(write("id,a\nx1,1\n"), drop=["id"]).feature_names == ("a",)


def test_empty_cells_and_their_usual_spellings_are_nan_and_booleans_are_0_and_1(write):
    X = read_table(write("a,b\n1,\n,NA\n nan ,null\ntrue,FALSE\nN/A,2\n")).X
    np.testing.assert_array_equal(X, [[1, np.nan], [np.nan, np.nan], [np.nan, np.nan], [1, 0], [np.nan, 2]])


@pytest.mark.parametrize(
    "content", ["a;b\n1;2\n", "a\tb\n1\t2\n", "\ufeffa,b\r\n1,2\r\n", '"a", b\n"1", 2', "\na,b\n\n1,2\n\n"]
)
def test_the_usual_dialects_are_understood(write, content):
    table = read_table(write(content))
    assert table.feature_names == ("a", "b")
    assert table.X.tolist() == [[1.0, 2.0]]


def test_a_header_that_counts_columns_or_was_expected_is_a_header(write):
    assert read_table(write("0,1\n5,6\n")).X.tolist() == [[5, 6]]
    assert read_table(write("20,10\n5,6\n"), columns=["10", "20"]).X.tolist() == [[6, 5]]


@given(st.lists(st.tuples(st.floats(allow_nan=False), st.text("ab,\"; '", min_size=1)), min_size=1, max_size=5))
def test_what_the_csv_module_writes_reads_back(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("csv") / "data.csv"
    with open(path, "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("x", "y"), *((x, f"<{y}>") for x, y in rows)])
    table = read_table(path, target="y")
    assert table.X.tolist() == [[x] for x, _ in rows]
    assert table.y is not None
    assert table.y.tolist() == [f"<{y}>" for _, y in rows]


def test_rows_beyond_a_block_are_read_and_counted(write):
    good = "a,y\n" + "".join(f"{n},{n % 2}\n" for n in range(10_000))
    table = read_table(write(good), target="y")
    assert table.X[:, 0].tolist() == list(range(10_000))
    assert table.y is not None
    assert table.y.sum() == 5_000
    with pytest.raises(InputError, match=r"mixes numbers and text \(row 10001 holds 'x'\)"):
        read_table(write(good + "x,0\n"), target="y")


@pytest.mark.parametrize(
    ("content", "options", "message"),
    [
        ("a,city\n1,2\n3,Oslo\n", {}, "column 'city' of FILE mixes numbers and text (row 2 holds 'Oslo'): correct"),
        ("a,b\n1,2\n3,x\n", {"column_types": {"b": "number"}}, "'b' of FILE holds 'x' in row 2 where numbers were"),
        ("a;b\n1,5;2\n1.5;3\n", {}, "column 'a' of FILE writes numbers in several ways (1,5 and 1.5): use one"),
        ("a,label\n1,2\n", {"target": "lable"}, "name one of 'a', 'label' (did you mean 'label'?)."),
        ("a,Label\n1,2\n", {"target": "label"}, "name one of 'a', 'Label' (did you mean 'Label'?)."),
        ("a,b\n1,2\n", {"target": "species"}, "has no target column 'species': name one of 'a', 'b'."),
        (",".join(f"c{n}" for n in range(500)), {"target": "?"}, "'c10', 'c11', … (500 in all)."),
        ("a,b\n1,2\n", {"drop": ["id"]}, "has no column 'id' to drop: name one of 'a', 'b'."),
        ("a,b\n", {}, "FILE has no rows of data"),
        ("y\n1\n", {"target": "y"}, "FILE has no feature columns beside 'y'"),
        ("a,b,a\n1,2,3\n", {}, "more than one column named 'a': rename all but one"),
        ("a,b\n1,2\n3\n", {}, "Row 2 of FILE has 1 cells where the header has 2: complete that row"),
        ("a,b\n1,2,3\n", {}, "Row 1 of FILE has 3 cells where the header has 2"),
        ("5.1,3.5\n4.9,3.0\n", {}, "first line of FILE holds only numbers: put a line of column names"),
        ("a,\n0,1\n", {}, "Column 2 of FILE has no name: name it, or remove it"),
        ("a\n1\n", {"columns": ["a", "b"]}, "lacks the column(s) 'b' of the training rows; add what is missing"),
        (
            "Age\n1\n",
            {"columns": ["age"]},
            "lacks the column(s) 'age' of the training rows (is it 'Age'?)",
        ),
    ],
)
def test_a_file_that_cannot_be_used_says_why(write, content, options, message):
    path = write(content)
    with pytest.raises(InputError, match=re.escape(message.replace("FILE", str(path)))) as caught:
        read_table(path, **options)
    assert str(path) in str(caught.value)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"data\.csv is empty \(0 bytes\)"),
        (b"\n\n", r"data\.csv is empty"),
        (b'a,b\n1,"2\n3,4\n', r"data\.csv cannot be read as csv \(.*\): look for a quotation mark"),
        (b"a,b\n1,\xff\x00\n", r"data\.csv is not text: save it as csv in UTF-8"),
        (b"\xff\xfea\x00,\x00b\x00\n", r"data\.csv is not text"),
    ],
)
def test_a_damaged_file_is_named(write, content, message):
    with pytest.raises(DamagedFileError, match=message):
        read_table(write(content))


@pytest.mark.parametrize("columns", [(), np.array([])], ids=["nothing", "an empty array"])
def test_no_columns_at_all_are_refused(tmp_path: Path, columns: Any) -> None:
    (tmp_path / "rows.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    with pytest.raises(InputError, match="columns must list at least one column by its name"):
        read_table(tmp_path / "rows.csv", columns=columns)
