"""What the cells of a csv column mean."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nu_ensembles.datasets.cells import CellReader
from nu_ensembles.errors import InputError
from nu_ensembles.tables import RawColumn


def read(*blocks: list[str], **options: Any) -> RawColumn:
    reader = CellReader("FILE", "c", **options)
    first = 1
    for block in blocks:
        reader.add(block, first)
        first += len(block)
    assert not reader.late
    return reader.column()


@pytest.mark.parametrize("gap", ["", " ", "NA", "n/a", "#N/A", "NaN", "null", "?", "-", "."])
def test_the_usual_spellings_of_a_gap_are_gaps_in_numbers_and_in_text(gap: str) -> None:
    np.testing.assert_array_equal(read(["1", gap, "2.5"]).values, [1, np.nan, 2.5])
    assert read(["x", gap]).words() == ["x", None]


@pytest.mark.parametrize(
    ("cells", "comma_splits_cells", "numbers"),
    [
        (["1,5", "-0,25", "2"], False, [1.5, -0.25, 2]),
        (["1,500"], False, [1.5]),
        (["1,500", "2", "1,234,567.5"], True, [1500, 2, 1234567.5]),
        (["1,5", ",5"], True, [1.5, 0.5]),
        (["true", "False", "NA"], True, [1, 0, np.nan]),
        (["1e3", "+2", ".5"], True, [1000, 2, 0.5]),
        (["none", "3"], True, [np.nan, 3]),
        (["007", "7"], True, [7, 7]),
    ],
)
def test_numbers_are_read_as_they_are_written(cells: list[str], comma_splits_cells: bool, numbers: list[float]) -> None:
    found = read(cells, comma_splits_cells=comma_splits_cells)
    assert found.kind == "number"
    np.testing.assert_array_equal(found.values, numbers)


def test_a_column_of_dates_is_one_of_dates() -> None:
    assert read(["2024-01-31", "", "2024-02-01"]).kind == "date"
    assert read(["31.1.2024", "1.2.2024"]).words() == ["2024-01-31", "2024-02-01"]
    assert read(["1/2/2024", "31/2/2024"]).kind == "category"


def test_anything_else_is_text_and_none_is_an_answer() -> None:
    assert read([" None", "Some", "None "]).words() == ["None", "Some", "None"]
    assert read(["1_0", "x"]).kind == "category"


def test_a_word_after_blocks_of_numbers_comes_late_and_the_column_is_read_again_as_text() -> None:
    reader = CellReader("FILE", "c")
    reader.add(["007", "1"], 1)
    reader.add(["x"], 3)
    assert reader.late
    assert read(["007", "1"] * 5, ["x"] * 9, as_text=True).words()[0] == "007"


def test_what_is_declared_is_not_guessed() -> None:
    assert read(["007", "7"], declared=("category", ())).words() == ["007", "7"]
    assert read(["b", "a"], declared=("ordered", ("a", "b"))).values.tolist() == [1, 0]
    with pytest.raises(InputError, match="The column 'c' of FILE holds 'x' in row 2 where numbers were expected"):
        read(["1", "x"], declared=("number", ()))
    with pytest.raises(InputError, match=r"'c' of FILE holds text \('soon'\) where dates were expected"):
        read(["2024-01-31", "soon"], declared=("date", ()))


@pytest.mark.parametrize("cells", [[*map(str, range(40)), "tall"], ["1.5", "2.5", "x"], ["1", "tall"]])
def test_a_few_words_among_numbers_are_mistakes(cells: list[str]) -> None:
    with pytest.raises(InputError, match=r"The column 'c' of FILE mixes numbers and text .row .* holds '(tall|x)'"):
        read(cells)


@pytest.mark.parametrize(
    "cells",
    [
        ["0", "1", "2", "3+"] * 5,  # levels
        ["1", "a", "b", "c"],  # mostly words
        [*map(str, range(50)), *(f"A/{number}" for number in range(30))],  # numbers of tickets
    ],
)
def test_levels_and_identifiers_may_look_like_numbers(cells: list[str]) -> None:
    assert read(cells).kind == "category"


def test_decimal_commas_and_points_in_one_column_are_refused() -> None:
    with pytest.raises(InputError, match=r"writes numbers in several ways \(1,5 and 1.5\): use one of them"):
        read(["1,5", "1.5"], comma_splits_cells=False)
    with pytest.raises(InputError, match=r"several ways \(1,000 and 1,5\)"):
        read(["1,5", "1,000"])
