"""Where csv text comes from, and files that are not what they say they are."""

from __future__ import annotations

import gzip
import io
import re
from pathlib import Path

import numpy as np
import pytest

from nu_ensembles.datasets import read_table, unpacking
from nu_ensembles.errors import DamagedFileError, DataWarning, InputError

CSV = "height,kind\n1.5,cat\n2,dog\n"


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.csv", CSV.encode()),
        ("a.CSV", CSV.replace(",", "|").encode()),
        ("a.tsv", CSV.replace(",", "\t").encode()),
        ("a.csv.gz", gzip.compress(CSV.encode(), mtime=0)),
        ("a.tsv.gz", gzip.compress(CSV.replace(",", "\t").encode(), mtime=0)),
        ("a.csv", CSV.replace(",", ";").replace(".", ",").encode()),
        ("a.csv", CSV.encode("utf-8-sig")),
        ("a.csv", CSV.encode("utf-16")),
        ("a.csv", b"sep=|\r\n" + CSV.replace(",", "|").encode()),
    ],
)
def test_the_same_table_in_many_dresses(tmp_path: Path, name: str, content: bytes) -> None:
    table = read_table(written(tmp_path / name, content), target="kind")
    assert table.X.tolist() == [[1.5], [2]]
    assert table.y is not None
    assert table.y.tolist() == ["cat", "dog"]


@pytest.mark.parametrize("packed", [False, True])
def test_a_dash_is_standard_input(monkeypatch: pytest.MonkeyPatch, packed: bool) -> None:
    content = gzip.compress(CSV.encode()) if packed else CSV.encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))
    assert read_table("-", target="kind").X.tolist() == [[1.5], [2]]
    with pytest.raises(DamagedFileError, match="Standard input is empty: pipe a csv file into it"):
        read_table("-")


def test_what_is_not_utf_8_is_read_as_latin_1_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "a,b\n1,café\n2,café\n".encode("latin-1"))
    with pytest.warns(DataWarning, match=r"a\.csv is not UTF-8 text and is read as Latin-1; save it as UTF-8"):
        table = read_table(path)
    assert table.X.parts[1].levels == ("café",)


def test_latin_1_as_windows_writes_it_keeps_its_dashes_and_what_has_none_is_plain_latin_1(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", "a,b\n1,caf\u00e9 \u2013 bar\n2,x\n".encode("cp1252"))
    with pytest.warns(DataWarning, match="read as Latin-1"):
        assert read_table(path).X.parts[1].levels == ("caf\u00e9 \u2013 bar", "x")
    written(path, b"a,b\n1,caf\xe9\x81\n2,x\n")
    with pytest.warns(DataWarning, match="read as Latin-1"):
        assert read_table(path).X.parts[1].levels == ("caf\u00e9\x81", "x")


def test_what_unpacks_to_hundreds_of_times_its_size_is_refused_on_the_way(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(unpacking, "HARMLESS_TEXT", 1 << 10)
    packed = gzip.compress(b"a,b\n" + b"0,0\n" * 100_000)
    (tmp_path / "bomb.csv.gz").write_bytes(packed)
    with pytest.raises(InputError, match=r"bomb\.csv\.gz unpacks to more than 200 times its size: unpack it first"):
        read_table(tmp_path / "bomb.csv.gz")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(packed)))
    with pytest.raises(InputError, match="standard input unpacks to more than 200 times its size"):
        read_table(Path("-"))
    monkeypatch.undo()
    assert read_table(tmp_path / "bomb.csv.gz").X.shape == (100_000, 2)


def test_a_packed_file_that_was_cut_off_is_damaged(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv.gz", gzip.compress(CSV.encode() * 100)[:-9])
    with pytest.raises(DamagedFileError, match=r"a\.csv\.gz is not a complete gzip file"):
        read_table(path)


def npz() -> bytes:
    file = io.BytesIO()
    np.savez(file, X=np.eye(2))
    return file.getvalue()


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", npz(), "says but an npz file: give it the ending .npz"),
        ("a.parquet", npz(), "is not what its ending .parquet says but an npz file"),
        ("a.csv", b"PAR1....PAR1", "but a parquet file: give it the ending .parquet"),
        ("a.npz", b"PAR1....PAR1", "is not what its ending .npz says but a parquet file"),
        ("a.csv", gzip.compress(b"a", mtime=0), "but compressed with gzip: give it the ending .csv.gz"),
        ("a.tsv", b"\n<!DOCTYPE HTML>\n<html>", "but a web page: download the file itself"),
        ("a.csv", b"\x89PNG\r\n", "but an image: give the folder that holds it"),
        ("a.parquet", CSV.encode(), "is not what its ending .parquet says but text: give it the ending .csv"),
        ("a.npz", CSV.encode(), "is not what its ending .npz says but text"),
        ("a.csv.gz", CSV.encode(), "is not what its ending .gz says but text"),
        ("a.xlsx", b"PK", "a.xlsx: '.xlsx'; save it as csv"),
        ("a.2024.gz", b"\x1f\x8b", "a.2024.gz: '.2024.gz'; give it the ending .csv.gz"),
        ("a.csv", b"\xd0\xcf\x11\xe0\xa1\xb1", "but an Excel workbook: save it as csv"),
    ],
)
def test_a_file_under_a_wrong_name_is_told_what_it_is(tmp_path: Path, name: str, content: bytes, sentence: str) -> None:
    with pytest.raises(InputError, match=re.escape(sentence)):
        read_table(written(tmp_path / name, content))


def test_a_first_column_without_a_name_holds_row_numbers(tmp_path: Path) -> None:
    with pytest.warns(DataWarning, match=r"The first column of .*a\.csv has no name; it is taken for row numbers"):
        table = read_table(written(tmp_path / "a.csv", b",a\n0,5\n1,6\n"))
    assert (table.feature_names, table.X.tolist()) == (("a",), [[5], [6]])


def test_kept_columns_are_text_beside_the_features(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "a.csv", b"id,a\n007,5\n008,6\n"), keep=["id"])
    assert table.feature_names == ("a",)
    assert table.kept["id"].tolist() == ["007", "008"]
    with pytest.raises(InputError, match="has no column 'idd' to keep: name one of 'id', 'a'"):
        read_table(tmp_path / "a.csv", keep=["idd"])


@pytest.mark.parametrize("gap", ["", "NaN", "NA", "null", "None"])
def test_rows_without_a_label_are_kept_with_none(tmp_path: Path, gap: str) -> None:
    y = read_table(written(tmp_path / "a.csv", f"a,y\n1,3\n2,{gap}\n3,4\n".encode()), target="y").y
    assert y is not None
    assert y.tolist() == [3, None, 4]


def test_the_word_none_is_a_class(tmp_path: Path) -> None:
    y = read_table(written(tmp_path / "a.csv", b"a,y\n1,none\n2,NONE\n"), target="y").y
    assert y is not None
    assert y.tolist() == ["none", "NONE"]


def test_text_makes_a_table_of_columns(tmp_path: Path) -> None:
    table = read_table(written(tmp_path / "a.csv", b"age,city,day\n1,Oslo,2024-01-31\n,Rome,2024-02-01\n"))
    assert [part.kind for part in table.X.parts] == ["number", "category", "date"]
    assert table.rows is table.X
    assert table.feature_names == ("age", "city", "day")


def test_a_word_after_thousands_of_numbers_makes_text_of_the_whole_column(tmp_path: Path) -> None:
    cells = [f"{number % 3:03}" for number in range(9000)] + ["one"] * 5
    table = read_table(written(tmp_path / "a.csv", "\n".join(["a,b", *(f"{cell},1" for cell in cells)]).encode()))
    assert table.X.parts[0].levels == ("000", "001", "002", "one")


def test_more_columns_than_expected_are_ignored_with_a_note(tmp_path: Path) -> None:
    path = written(tmp_path / "a.csv", b"a,b,c\n1,2,3\n")
    with pytest.warns(DataWarning, match=r"a\.csv has columns that the training rows had not.*'b', 'c'"):
        assert read_table(path, columns=["a"]).X.tolist() == [[1]]
