"""Predictions in a file: the same columns in every format, and never half a file or a lost one."""

import os

import ml_dtypes
import numpy as np
import pytest

from nu_ensembles.datasets import read_table, write_predictions
from nu_ensembles.errors import InputError

probabilities = np.array([[0.25, 0.75], [0.9, 0.1]], np.float32)


def test_csv_holds_the_prediction_its_confidence_and_every_class(tmp_path):
    write_predictions(tmp_path / "p.csv", probabilities, ["cat", "dog, big"])
    assert (tmp_path / "p.csv").read_text() == (
        'prediction,confidence,p_cat,"p_dog, big"\n"dog, big",0.75,0.25,0.75\ncat,0.9,0.9,0.1\n'
    )


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@pytest.mark.parametrize("classes", [[3, 7], ["a", "b"]])
def test_tables_read_back_the_same(tmp_path, ending, classes):
    pytest.importorskip("pyarrow")
    path = tmp_path / f"p.{ending}"
    write_predictions(path, probabilities, classes)
    table = read_table(path, target="prediction")
    nine, one = probabilities[1].tolist()
    assert table.feature_names == ("confidence", f"p_{classes[0]}", f"p_{classes[1]}")
    assert table.X.astype(np.float32).tolist() == [[0.75, 0.25, 0.75], [nine, nine, one]]
    assert table.y is not None
    assert table.y.tolist() == [classes[1], classes[0]]


def test_npz_holds_an_array_for_each_column_and_no_pickle(tmp_path):
    write_predictions(tmp_path / "p.npz", probabilities, np.array(["a", "b"], object), row_names=["x.png", "y.png"])
    with np.load(tmp_path / "p.npz", allow_pickle=False) as saved:
        assert saved.files == ["file", "prediction", "confidence", "p_a", "p_b"]
        assert saved["file"].tolist() == ["x.png", "y.png"]
        assert saved["prediction"].tolist() == ["b", "a"]
        np.testing.assert_array_equal(saved["p_b"], probabilities[:, 1])


@pytest.mark.parametrize("ending", ["csv", "npz", "parquet"])
def test_half_precision_is_written_as_float32_and_equal_inputs_give_equal_bytes(tmp_path, ending):
    pytest.importorskip("pyarrow")
    half = probabilities.astype(ml_dtypes.bfloat16)
    write_predictions(tmp_path / f"a.{ending}", half, [0, 1])
    write_predictions(tmp_path / f"b.{ending}", half.astype(np.float32), [0, 1])
    assert (tmp_path / f"a.{ending}").read_bytes() == (tmp_path / f"b.{ending}").read_bytes()


def test_names_of_rows_come_first(tmp_path):
    write_predictions(tmp_path / "p.csv", probabilities, [0, 1], row_names=["x.png", "y.png"])
    first_line, first_row, _ = (tmp_path / "p.csv").read_text().splitlines()
    assert first_line == "file,prediction,confidence,p_0,p_1"
    assert first_row == "x.png,1,0.75,0.25,0.75"


@pytest.mark.parametrize(
    ("name", "classes", "row_names", "message"),
    [
        ("p.cvs", [0, 1], None, r"Unknown file type of .*p\.cvs: '\.cvs'\. Did you mean '\.csv'\?"),
        (
            "taken.csv",
            [0, 1],
            None,
            r"The file .*taken\.csv exists already: choose another file or remove it",
        ),
        ("absent/p.csv", [0, 1], None, r"The folder of .*p\.csv does not exist: create it or choose another"),
        ("p.csv", [0, 1, 2], None, r"Probabilities of shape \(2, 2\) do not fit 3 classes"),
        ("p.csv", [0, 1], ["x"], r"There are 1 row names for 2 rows: give one for each"),
    ],
)
def test_what_cannot_be_written_is_refused_and_nothing_is_touched(tmp_path, name, classes, row_names, message):
    (tmp_path / "taken.csv").write_text("mine")
    with pytest.raises(InputError, match=message):
        write_predictions(tmp_path / name, probabilities, classes, row_names)
    assert os.listdir(tmp_path) == ["taken.csv"]
    assert (tmp_path / "taken.csv").read_text() == "mine"


def test_what_a_spreadsheet_would_run_is_text_in_a_csv_file(tmp_path):
    names = ["=HYPERLINK(1)", "@SUM", "-1"]
    write_predictions(tmp_path / "p.csv", np.eye(3), names, row_names=["+a", "-2.5e3", "b"])
    lines = (tmp_path / "p.csv").read_text().splitlines()
    assert lines[0] == "file,prediction,confidence,p_=HYPERLINK(1),p_@SUM,p_-1"
    assert [line.split(",")[:2] for line in lines[1:]] == [["'+a", "'=HYPERLINK(1)"], ["-2.5e3", "'@SUM"], ["b", "-1"]]
