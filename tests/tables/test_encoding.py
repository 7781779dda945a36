"""A whole table: fitted on labelled and unlabelled rows together, matched by name, kept as JSON."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.tables import RawColumn, RawTable, TableEncoding
from nu_ensembles.tables.column import encoded

NAN = np.nan


def table(**columns: list) -> RawTable:
    """Columns of numbers, or of text."""
    return RawTable(
        tuple(
            encoded(name, values)
            if any(isinstance(value, str) for value in values)
            else RawColumn(name, "number", np.array(values, float))
            for name, values in columns.items()
        )
    )


X = table(age=[1, 2, 3, 4], city=["Oslo", "Rome", "Oslo", "Rome"])


def fitted(*tables: RawTable) -> TableEncoding:
    return TableEncoding.fit(*tables)[0]


def test_rows_become_numbers_column_by_column() -> None:
    encoding, (numbers,) = TableEncoding.fit(X)
    assert encoding.outputs == ("age", "city is Oslo", "city is Rome", "city is unknown")
    assert numbers.tolist() == [[1, 1, 0, 0], [2, 0, 1, 0], [3, 1, 0, 0], [4, 0, 1, 0]]
    assert encoding.as_they_are.tolist() == [False, True, True, True]


def test_unlabelled_rows_count_for_medians_levels_and_gaps() -> None:
    more = table(city=["Rome", "Paris", "Paris", "Paris"], age=[NAN, 9, 9, 9])
    encoding, (_, u) = TableEncoding.fit(X, more)
    assert encoding.outputs[:3] == ("age", "age is missing", "city is Oslo")
    assert "city is Paris" in encoding.outputs
    assert u[0, :2].tolist() == [4, 1]  # the median of 1 2 3 4 9 9 9


@pytest.mark.parametrize(
    ("columns", "left_out", "reason"),
    [
        ({"id": ["p", "q", "r", "s"]}, "id", "text with as many levels as rows"),
        ({"gap": [NAN] * 4}, "gap", "no value in any labelled row"),
        ({"same": ["a"] * 4}, "same", "the same in every row"),
    ],
)
def test_columns_that_tell_nothing_are_left_out_with_a_note(columns, left_out: str, reason: str) -> None:
    wider = RawTable((X.parts[0], *table(**columns).parts))
    with pytest.warns(DataWarning, match=f"Columns of X are left out: '{left_out}' .*{reason}"):
        encoding = fitted(wider)
    assert encoding.columns == ("age",)
    # Later tables may have the column or not, and nobody says a word.
    assert encoding(wider).tolist() == encoding(wider.only(["age"])).tolist() == [[1], [2], [3], [4]]


def test_text_whose_levels_hardly_repeat_is_left_out() -> None:
    words = [f"{number // 2} Main Street" if number < 12 else f"No. {number}" for number in range(20)]
    with pytest.warns(DataWarning, match="'street' .it is text whose 14 levels hardly repeat"):
        assert fitted(table(age=[1, 2] * 10, street=words)).columns == ("age",)


def test_dates_that_may_mean_two_days_are_left_out_and_told_how_to_be_written() -> None:
    with pytest.warns(DataWarning, match="'day' .it holds dates such as 1/2/2024, .* write them as 2024-01-31"):
        fitted(table(age=[1, 2] * 6, day=[f"{n}/2/2024" for n in range(1, 13)]))


def test_a_column_that_only_unlabelled_rows_fill_is_left_out() -> None:
    with pytest.warns(DataWarning, match="'b'"):
        encoding = fitted(table(a=[1, 2], b=[NAN, NAN]), table(b=["x", "y"], a=[3, 4]))
    assert encoding.columns == ("a",)


def test_a_table_of_nothing_to_learn_from_is_refused() -> None:
    with pytest.raises(InputError, match=r"X has no column to learn from: 'id' \(.*\); give others"):
        fitted(table(id=["a", "b"]))


@given(st.permutations(["age", "city", "more"]))
def test_columns_are_found_by_name_in_any_order(order: list[str]) -> None:
    wide = RawTable((*X.parts, RawColumn("more", "number", np.array([4.0, 3, 2, 1]))))
    encoding = fitted(wide)
    assert (encoding(wide.only(order)) == encoding(wide)).all()


def test_missing_columns_are_named_together_with_a_near_match() -> None:
    with pytest.raises(InputError, match=r"lacks the column\(s\) 'age' of the training rows \(is it 'Age'\?\)"):
        fitted(X)(table(Age=[1], city=["Oslo"]), "new.csv")
    with pytest.raises(InputError, match=r"new.csv lacks the column\(s\) 'age', 'city' of the training rows"):
        fitted(X)(table(x=[1]), "new.csv")


def test_further_columns_are_ignored_with_a_note() -> None:
    more = table(city=["Oslo"], height=[180], age=[5])
    with pytest.warns(DataWarning, match="new.csv has columns that the training rows had not.*'height'"):
        assert fitted(X)(more, "new.csv").tolist() == [[5, 1, 0, 0]]


def test_unknown_levels_and_new_gaps_have_their_place() -> None:
    with pytest.warns(DataWarning) as notes:
        found = fitted(X)(table(age=[NAN, 1, 2], city=["Paris", "Rome", "Lima"]))
    assert found.tolist() == [[2.5, 0, 0, 1], [1, 0, 1, 0], [2, 0, 0, 1]]
    gaps, words = (str(note.message) for note in notes)
    assert "has gaps (or new levels) where the training rows had none, filled with the median: 'age'" in gaps
    assert words == "X has words that the training rows had not, which are taken as unknown: 'city'."


def test_columns_that_look_like_numbers_with_typing_errors_are_noted() -> None:
    wrong = table(age=[*map(str, range(40)), "n.a."], grade=["1", "2", "3+", "2"] * 10 + ["1"])
    with pytest.warns(DataWarning) as notes:
        wrong.note_numbers("X")
    (note,) = (str(note.message) for note in notes)
    assert note.startswith("The column 'age' of X is text, though 40 of 41 values are numbers ('n.a.' is none); turn")


def test_levels_that_an_order_lacks_are_noted() -> None:
    sizes = table(size=["S", "L", "XL", "S"])
    with pytest.warns(DataWarning, match=r"'size' of X has levels that were not declared, .* as gaps: 'XL'\."):
        found = sizes.declared({"size": ("ordered", ("S", "L"))}, "X")
    assert found.parts[0].values.tolist() == [0, 1, -1, 0]


def test_text_where_numbers_were_is_refused_and_numbers_where_text_was_are_levels() -> None:
    with pytest.raises(InputError, match=r"'age' of X holds text \('old'\) where numbers were expected"):
        fitted(X)(table(age=["old"], city=["Oslo"]))
    codes = fitted(table(a=[1, 2, 1, 2], code=["7", "8a", "7", "8a"]))
    assert codes(table(a=[1], code=[7])).tolist() == [[1, 1, 0, 0]]


def test_infinity_is_refused_by_row_and_column() -> None:
    with pytest.raises(InputError, match=r"U contains infinity: 1 value\(s\) .* column 'age', the first in row 1"):
        fitted(X)(table(age=[1, np.inf], city=["Oslo", "Oslo"]), "U")


def test_arrays_are_told_by_the_place_of_their_columns() -> None:
    encoding = fitted(RawTable.of_numbers(np.array([[1.0, NAN], [3.0, 4.0]])))
    assert encoding(RawTable.of_numbers(np.array([[7.0, NAN]]))).tolist() == [[7, 4, 1]]
    with pytest.raises(InputError, match=r"X has rows of shape \(3,\) where \(2,\) is expected"):
        encoding(RawTable.of_numbers(np.ones((1, 3))))


def test_it_says_in_words_what_became_of_each_column() -> None:
    with pytest.warns(DataWarning):
        encoding = fitted(RawTable((*X.parts, encoded("id", ["p", "q", "r", "s"]))))
    assert encoding.describe() == {
        "age": "number",
        "city": "category, an indicator each for 'Oslo', 'Rome', one for what is unknown",
        "id": "left out: it is text with as many levels as rows, as an identifier is",
    }
    scaled = encoding.describe(np.array([2.5, 0, 0, 0]), np.array([0.5, 1, 1, 1]))
    assert scaled["age"] == "number; 2.5 taken off, divided by 0.5"


def test_it_survives_as_json() -> None:
    encoding = fitted(table(a=[0.1, NAN, 1 / 3], b=["x", "x", "y"]))
    again = TableEncoding.from_json(json.loads(json.dumps(encoding.to_json())))
    assert again == encoding


def test_a_column_that_counts_the_rows_is_used_with_a_note() -> None:
    counted = table(number=list(range(7, 27)), age=[1, 2] * 10)
    with pytest.warns(DataWarning, match="X has a column that counts the rows, 'number'; leave it out if"):
        encoding = fitted(counted)
    assert encoding.columns == ("number", "age")
