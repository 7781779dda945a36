"""Data frames of three libraries, and of none that is known, as raw tables."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import numpy as np
import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.tables import is_frame, is_gap, rows_of
from nu_ensembles.tables.frames import column_of_objects

COLUMNS: dict[str, list[Any]] = {
    "whole": [1, None, 3],
    "decimal": [decimal.Decimal("1.5"), None, decimal.Decimal("2")],
    "yes": [True, None, False],
    "text": ["a", None, "b"],
    "day": [datetime.date(2024, 1, 31), None, datetime.date(2025, 1, 1)],
    "moment": [datetime.datetime(2024, 1, 31, 18, 30), None, datetime.datetime(2025, 1, 1)],
    "duration": [datetime.timedelta(seconds=90), None, datetime.timedelta(0)],
}
FOUND = {
    "whole": ("number", ["1", None, "3"]),
    "decimal": ("number", ["1.5", None, "2"]),
    "yes": ("number", ["1", None, "0"]),
    "text": ("category", ["a", None, "b"]),
    "day": ("date", ["2024-01-31", None, "2025-01-01"]),
    "moment": ("date", ["2024-01-31 18:30:00", None, "2025-01-01"]),
    "duration": ("number", ["90", None, "0"]),
}


@pytest.mark.parametrize(("library", "make"), [("pandas", "DataFrame"), ("polars", "DataFrame"), ("pyarrow", "table")])
def test_columns_of_every_type_are_read_by_it_in_every_library(library: str, make: str) -> None:
    frame = getattr(pytest.importorskip(library), make)(COLUMNS)
    assert is_frame(frame)
    table = rows_of(frame, "X")
    assert table.shape == (3, len(COLUMNS))
    assert {part.name: (part.kind, part.words()) for part in table.parts} == FOUND


def test_text_is_dates_where_every_word_is_one() -> None:
    pa = pytest.importorskip("pyarrow")
    days, codes = rows_of(pa.table({"day": ["2024-01-31", None], "code": ["2024-01-31", "none"]}), "X").parts
    assert (days.kind, days.words(), codes.kind) == ("date", ["2024-01-31", None], "category")


def test_ordered_categoricals_keep_the_order_that_was_declared() -> None:
    pd = pytest.importorskip("pandas")
    sizes = pd.Categorical(["L", "S", None], categories=["S", "M", "L"], ordered=True)
    (part,) = rows_of(pd.DataFrame({"size": sizes}), "X").parts
    assert (part.kind, part.levels, part.values.tolist()) == ("ordered", ("S", "M", "L"), [2, 0, -1])
    (part,) = rows_of(pd.DataFrame({"code": pd.Categorical([2, 1, None])}), "X").parts
    assert (part.kind, part.words()) == ("category", ["2", "1", None])


def test_ordered_dictionaries_of_arrow_do_too_and_an_enum_of_polars_is_a_category() -> None:
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    sizes = pa.DictionaryArray.from_arrays([1, 0, None], ["S", "L"], ordered=True)
    (part,) = rows_of(pa.table({"size": sizes}), "X").parts
    assert (part.kind, part.levels, part.values.tolist()) == ("ordered", ("S", "L"), [1, 0, -1])
    (part,) = rows_of(pl.DataFrame({"size": pl.Series(["L", "S"], dtype=pl.Enum(["S", "L"]))}), "X").parts
    assert (part.kind, part.words()) == ("category", ["L", "S"])


def test_times_with_a_zone_are_told_in_utc() -> None:
    pd = pytest.importorskip("pandas")
    moments = pd.to_datetime(["2024-01-31 12:00", None]).tz_localize("Europe/Oslo")
    (part,) = rows_of(pd.DataFrame({"at": moments}), "X").parts
    assert part.words() == ["2024-01-31T11:00:00.000000", None]


def test_names_that_are_not_text_are_no_names() -> None:
    pd = pytest.importorskip("pandas")
    table = rows_of(pd.DataFrame({0: [1, 2], 1: ["a", "b"]}), "X")
    assert (table.names, table.named) == (("x0", "x1"), False)


def test_a_lazy_frame_is_to_be_collected_first() -> None:
    pl = pytest.importorskip("polars")
    with pytest.raises(InputError, match=r"X is a lazy frame.*call its collect\(\) first"):
        rows_of(pl.LazyFrame({"a": [1]}), "X")


def test_columns_of_one_name_are_refused() -> None:
    pa = pytest.importorskip("pyarrow")
    frame = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(InputError, match="More than one column of X is named 'a'; rename all but one"):
        rows_of(frame, "X")


class Batches:
    """Rows of a stranger that hands itself over as Arrow."""

    def __init__(self, table: Any) -> None:
        self.table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.table.__arrow_c_stream__(requested_schema)


def test_whoever_speaks_arrow_is_understood() -> None:
    pa = pytest.importorskip("pyarrow")
    table = rows_of(Batches(pa.table({"a": [1, 2], "b": ["x", "y"]})), "X")
    assert [(part.name, part.kind) for part in table.parts] == [("a", "number"), ("b", "category")]


class Frame:
    """Columns with names that become an array, and nothing else."""

    def __init__(self, values: np.ndarray, columns: list[str]) -> None:
        self.values, self.columns, self.shape = values, columns, values.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.values, dtype)


def test_named_columns_that_become_an_array_are_a_frame_as_well() -> None:
    table = rows_of(Frame(np.array([[1, 2]], np.uint8), ["a", "b"]), "X")
    assert (table.names, [part.words() for part in table.parts]) == (("a", "b"), [["1"], ["2"]])
    table = rows_of(Frame(np.array([[1, "x"], [None, "y"]], object), ["a", "b"]), "X")
    assert [part.kind for part in table.parts] == ["number", "category"]


@pytest.mark.parametrize("rows", [np.zeros((2, 2)), [[1, 2]], ([1], [2]), 3.0, None])
def test_arrays_and_lists_are_no_frames(rows: Any) -> None:
    assert not is_frame(rows)
    assert rows_of(rows, "X") is rows


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ([1, None, "a"], r"'c' of X mixes numbers \(row 0: 1\) and text \(row 2: 'a'\); make it one of them"),
        (["a", datetime.date(2024, 1, 1)], r"mixes text \(row 0: 'a'\) and dates"),
        ([1, {"a": 2}], r"'c' of X holds a dict in row 1; turn it into numbers, text or dates, or drop it"),
        ([[1, 2]], "holds a list in row 0"),
    ],
)
def test_columns_of_several_types_are_refused(values: list[Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        column_of_objects("c", values, "X")


def test_objects_of_one_type_are_what_they_are() -> None:
    assert column_of_objects("c", [True, None, np.bool_(False)], "X").words() == ["1", None, "0"]
    assert column_of_objects("c", [1, 2.5, decimal.Decimal("3")], "X").words() == ["1", "2.5", "3"]
    assert column_of_objects("c", [datetime.time(1, 0, 30), None], "X").words() == ["3630", None]
    assert column_of_objects("c", [None, float("nan")], "X").gaps.all()


@pytest.mark.parametrize("value", [None, float("nan"), np.float32("nan"), np.datetime64("NaT")])
def test_what_does_not_equal_itself_is_a_gap(value: Any) -> None:
    assert is_gap(value)
    assert not any(map(is_gap, ["", 0, "nan", False, np.zeros(2), [None]]))


def test_the_missing_values_of_pandas_are_gaps() -> None:
    pd = pytest.importorskip("pandas")
    assert is_gap(pd.NA)
    assert is_gap(pd.NaT)
