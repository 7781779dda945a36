"""What becomes of a column: literal rows in, literal numbers out."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.tables.column import RawColumn, encoded
from nu_ensembles.tables.encoders import (
    CategoryEncoder,
    DateEncoder,
    NumberEncoder,
    OrderedEncoder,
    encoder_from_json,
    encoder_to_json,
)

NAN = np.nan


def dates(*texts: str) -> RawColumn:
    return RawColumn("day", "date", np.array(texts, "datetime64[us]"))


def test_numbers_stay_what_they_are() -> None:
    fitted = NumberEncoder.fit(RawColumn("a", "number", np.array([1.0, 5.0])))
    assert fitted.outputs == ("a",)
    assert fitted(RawColumn("a", "number", np.array([7.0]))).tolist() == [[7.0]]


def test_gaps_are_filled_with_the_median_and_marked() -> None:
    column = RawColumn("a", "number", np.array([1.0, NAN, 2.0, 9.0]))
    fitted = NumberEncoder.fit(column)
    assert fitted.outputs == ("a", "a is missing")
    assert fitted.as_they_are == (False, True)
    assert fitted(column).tolist() == [[1, 0], [2, 1], [2, 0], [9, 0]]
    assert fitted.in_words() == "number; 1 gap filled with the median, 2, and marked"


def test_a_gap_in_a_column_that_had_none_is_filled_and_cannot_be_marked() -> None:
    fitted = NumberEncoder.fit(RawColumn("a", "number", np.array([1.0, 3.0])))
    assert fitted(RawColumn("a", "number", np.array([NAN]))).tolist() == [[2.0]]


def test_ordered_levels_are_counted_from_zero() -> None:
    column = encoded("size", ["L", "S", None, "S"], ["S", "M", "L"])
    fitted = OrderedEncoder.fit(column)
    assert fitted(column).tolist() == [[2, 0], [0, 0], [0, 1], [0, 0]]
    assert fitted.in_words().startswith("ordered, as 0 to 2: S < M < L; 1 gap filled with the median level")


def test_each_frequent_level_has_an_indicator_and_rare_ones_share_one() -> None:
    column = encoded("c", ["a"] * 3 + ["b"] * 4 + ["c", "d", "d", None])
    fitted = CategoryEncoder.fit(column, fewest_rows=3)
    assert (fitted.kept, fitted.rare, fitted.single, fitted.n_gaps) == (("a", "b"), ("c", "d"), ("c",), 1)
    assert fitted.outputs == ("c is a", "c is b", "c is another, rare", "c is missing", "c is unknown")
    rows = encoded("c", ["d", "b", None, "never seen", "a"])
    assert fitted(rows).tolist() == [
        [0, 0, 1, 0, 0],
        [0, 1, 0, 0, 0],
        [0, 0, 0, 1, 0],
        [0, 0, 1, 0, 1],
        [1, 0, 0, 0, 0],
    ]
    # A level of one row stands for those that were never seen.
    assert fitted(encoded("c", ["c"])).tolist() == fitted(encoded("c", ["never seen"])).tolist()
    assert all(fitted.as_they_are)
    assert fitted.in_words() == (
        "category, an indicator each for 'a', 'b', one for 2 rare levels together, one for 1 gaps, one for what is "
        "unknown"
    )


def test_a_gap_where_the_fitted_rows_had_none_is_unknown() -> None:
    fitted = CategoryEncoder.fit(encoded("c", ["a", "a", "b", "b"]), fewest_rows=1)
    assert fitted(encoded("c", [None])).tolist() == [[0, 0, 1]]


def test_a_single_rare_level_needs_no_pool() -> None:
    assert CategoryEncoder.fit(encoded("c", ["a"] * 3 + ["b"]), fewest_rows=3).kept == ("a", "b")


def test_only_the_most_frequent_levels_are_kept_and_ties_go_by_the_alphabet() -> None:
    column = encoded("c", ["z", "z", "b", "b", "a", "a", "a"])
    fitted = CategoryEncoder.fit(column, fewest_rows=1, most_levels=1)
    assert (fitted.kept, fitted.rare) == (("a",), ("b", "z"))
    fitted = CategoryEncoder.fit(column[:6], fewest_rows=1, most_levels=2)
    assert fitted.kept == ("a", "b", "z")  # the pool would be a single level


@given(st.lists(st.sampled_from(["a", "b", "c", "d", None]), min_size=1, max_size=30), st.randoms())
def test_the_order_of_rows_decides_nothing(words: list[str | None], random) -> None:
    turned = list(words)
    random.shuffle(turned)
    one, other = (CategoryEncoder.fit(encoded("c", rows), 2, 2) for rows in (words, turned))
    assert one == other


def test_dates_are_days_since_the_first_and_turn_in_the_cycles_that_they_complete() -> None:
    column = dates("2024-01-01", "2024-01-08", "2024-01-15", "NaT")
    fitted = DateEncoder.fit(column)
    assert fitted.cycles == ("week",)
    found = fitted(column)
    assert found[:, 0].tolist() == [0, 7, 14, 7]
    # The same day of the week is the same place in it; a gap is in none, and marked.
    assert np.ptp(found[:3, 1]) < 1e-12
    assert found[3].tolist() == [7, 0, 0, 1]
    np.testing.assert_allclose((found[:3, 1:3] ** 2).sum(axis=1), 0.25)


def test_hours_turn_in_the_day_and_months_in_the_year() -> None:
    assert DateEncoder.fit(dates("2024-01-01T06:00", "2024-01-03T18:00")).cycles == ("day",)
    assert DateEncoder.fit(dates("2024-01-01", "2025-03-04")).cycles == ("week", "year")
    assert DateEncoder.fit(dates("2024-01-01", "2024-01-03")).cycles == ()


def test_months_have_no_day_of_the_week_and_years_no_season() -> None:
    assert DateEncoder.fit(dates("2024-01-01", "2024-02-01", "2025-03-01")).cycles == ("year",)
    assert DateEncoder.fit(dates("2023-01-01", "2024-01-01", "2025-01-01")).cycles == ()


def test_the_place_in_a_cycle_does_not_depend_on_the_first_date() -> None:
    one = DateEncoder.fit(dates("2020-01-01", "2024-03-04"))
    other = DateEncoder.fit(dates("2021-05-05", "2024-01-01"))
    np.testing.assert_allclose(one(dates("2024-07-01"))[:, 1:], other(dates("2024-07-01"))[:, 1:], atol=1e-9)


@pytest.mark.parametrize(
    "encoder",
    [
        NumberEncoder("a", 0.1 + 0.2, 3),
        OrderedEncoder("a", 1.0, 0, ("S", "M")),
        CategoryEncoder("a", ("x", "y"), ("z",), ("z",), 2),
        DateEncoder("a", "2024-01-01", ("week",), 3.25, 0),
    ],
)
def test_an_encoder_survives_as_plain_values(encoder) -> None:
    assert encoder_from_json(encoder_to_json(encoder)) == encoder
