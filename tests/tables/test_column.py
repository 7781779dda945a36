"""A column: its gaps, its values as text, and the same values as another kind."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles.errors import InputError
from nu_ensembles.tables.column import RawColumn, date_from_text, encoded, stacked_columns


def numbers(*values: float) -> RawColumn:
    return RawColumn("a", "number", np.array(values, float))


def test_levels_come_in_the_order_of_their_first_row_and_none_is_a_gap() -> None:
    column = encoded("a", ["red", None, "blue", "red"])
    assert (column.kind, column.levels, column.values.tolist()) == ("category", ("red", "blue"), [0, -1, 1, 0])
    assert column.gaps.tolist() == [False, True, False, False]
    assert column.words() == ["red", None, "blue", "red"]


def test_whole_numbers_are_the_same_level_whether_a_gap_made_floats_of_them_or_not() -> None:
    assert numbers(3.0, 0.5, np.nan, 1e20).words() == ["3", "0.5", None, "1e+20"]


def test_text_of_numbers_becomes_numbers_where_numbers_are_expected() -> None:
    found = encoded("a", ["1.5", None, "2"]).as_kind("number", (), "X")
    np.testing.assert_array_equal(found.values, [1.5, np.nan, 2])
    with pytest.raises(InputError, match=r"The column 'a' of X holds text \('tall'\) where numbers were expected"):
        encoded("a", ["1", "tall"]).as_kind("number", (), "X")


def test_codes_of_numbers_become_a_category_where_one_is_declared() -> None:
    found = numbers(7, np.nan, 8).as_kind("category", (), "X")
    assert (found.levels, found.values.tolist()) == (("7", "8"), [0, -1, 1])


def test_ordered_levels_have_the_declared_order_and_others_are_gaps() -> None:
    found = encoded("a", ["L", "S", "XXL"]).as_kind("ordered", ("S", "M", "L"), "X")
    assert (found.kind, found.values.tolist()) == ("ordered", [2, 0, -1])


def test_a_column_of_gaps_can_be_of_any_kind() -> None:
    assert np.isnan(encoded("a", [None, None]).as_kind("number", (), "X").values).all()
    assert numbers(np.nan).as_kind("date", (), "X").gaps.all()
    with pytest.raises(InputError, match=r"holds numbers \('3'\) where dates were expected"):
        numbers(3).as_kind("date", (), "X")


@pytest.mark.parametrize(
    ("text", "date"),
    [
        ("2024-01-31", "2024-01-31"),
        ("2024/01/31", "2024-01-31"),
        ("2024-01-31 18:30", "2024-01-31T18:30"),
        ("2024-01-31T18:30:00+02:00", "2024-01-31T16:30"),
        ("31.1.2024", "2024-01-31"),
        ("31.01.2024 18:30", "2024-01-31T18:30"),
        ("1/2/2024", None),  # the first of February here, the second of January there
        ("20240131", None),
        ("2024-W05", None),
        ("2024-13-01", None),
        ("tomorrow", None),
    ],
)
def test_dates_are_those_that_mean_one_day_only(text: str, date: str | None) -> None:
    assert date_from_text(text) == (None if date is None else np.datetime64(date, "us"))


def test_columns_of_one_kind_are_put_together_level_by_level() -> None:
    both = stacked_columns(encoded("a", ["x", "y"]), encoded("a", ["z", None, "y"]))
    assert both.words() == ["x", "y", "z", None, "y"]
    assert stacked_columns(numbers(1), numbers(2)).values.tolist() == [1, 2]
