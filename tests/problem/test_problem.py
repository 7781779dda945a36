"""From what the user hands in to a problem: tables, gaps, rows without labels, columns that give the label away."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.problem import Problem, prepare
from nu_ensembles.problem.problem import labelled_pair
from nu_ensembles.tables import RawColumn, RawTable
from nu_ensembles.tables.column import encoded

NAN = np.nan
Y = np.array([0, 1, 0, 1])
CITY = encoded("city", ["Oslo", "Rome", "Rome", "Oslo"])
AGE = RawColumn("age", "number", np.array([1.0, 2.0, 3.0, 6.0]))
TABLE = RawTable((AGE, CITY))


def same(one: Problem, other: Problem) -> bool:
    parts = ("x", "y", "weight", "row_numbers", "x_unlabeled")
    return all(np.array_equal(getattr(one, part), getattr(other, part)) for part in parts)


def test_a_table_is_encoded_and_scaled_on_request() -> None:
    plain, scaled = prepare(TABLE, Y), prepare(TABLE, Y, standardize=True)
    assert plain.x.tolist() == [[1, 1, 0, 0], [2, 0, 1, 0], [3, 0, 1, 0], [6, 1, 0, 0]]
    assert scaled.x[:, 1:].tolist() == plain.x[:, 1:].tolist()  # indicators stay
    np.testing.assert_allclose(scaled.x[:, 0], (AGE.values - 3) / np.sqrt(3.5), rtol=1e-6)
    assert plain.columns == ("age", "city")
    assert plain.feature_names == ("age", "city is Oslo", "city is Rome", "city is unknown")


def test_by_default_named_columns_are_scaled_and_arrays_are_not() -> None:
    assert prepare(TABLE, Y, standardize=None).standardisation is not None
    assert prepare(np.eye(4), Y, standardize=None).standardisation is None


def test_numbers_with_names_are_scaled_to_the_bits_of_an_array() -> None:
    x, u = np.random.default_rng(0).normal(3, 2, (2, 4, 3))
    named = [RawTable.of_numbers(rows, ["a", "b", "c"]) for rows in (x, u)]
    assert same(prepare(x, Y, u, standardize=True), prepare(named[0], Y, named[1], standardize=True))


def test_gaps_of_an_array_are_filled_and_marked_over_all_rows() -> None:
    x, u = np.array([[1.0, 0], [2, 0], [3, 0], [6, 1]]), np.array([[NAN, 5.0]])
    problem = prepare(x, Y, u)
    assert problem.x.tolist() == [[1, 0, 0], [2, 0, 0], [3, 0, 0], [6, 0, 1]]
    assert problem.x_unlabeled is not None
    assert problem.x_unlabeled.tolist() == [[2.5, 1, 5]]
    assert (problem.columns, problem.row_shape) == (None, (3,))


@pytest.mark.parametrize("x", [np.full((2, 3, 3, 1), NAN), np.array([[1.0, np.inf], [0, 0]])])
def test_gaps_of_images_and_infinity_are_refused(x: np.ndarray) -> None:
    with pytest.raises(InputError, match=r"X contains (NaN|infinity)"):
        prepare(x, [0, 1])


def test_rows_without_a_label_join_the_unlabelled_ones() -> None:
    x, u = np.arange(10.0).reshape(5, 2), np.full((2, 2), 7.0)
    with pytest.warns(DataWarning, match="2 of 5 rows without a label in y"):
        problem = prepare(x, [0, NAN, 1, NAN, 1], u, sample_weight=[1, 9, 2, 9, 3])
    assert problem.x.tolist() == x[[0, 2, 4]].tolist()
    assert problem.x_unlabeled is not None
    assert problem.x_unlabeled.tolist() == [[7, 7], [7, 7], *x[[1, 3]].tolist()]
    assert problem.row_numbers.tolist() == [0, 2, 4]
    assert problem.weight.tolist() == [0.5, 1, 1.5]


def test_unlabelled_rows_of_a_table_come_in_any_order_of_columns() -> None:
    with pytest.warns(DataWarning, match="1 of 4 rows"):
        problem = prepare(TABLE, ["a", None, "b", "b"], TABLE.only(["city", "age"]))
    assert problem.x_unlabeled is not None
    assert problem.x_unlabeled[:, 0].tolist() == [1, 2, 3, 6, 2]


def test_further_rows_are_encoded_and_scaled_alike() -> None:
    problem = prepare(TABLE, Y, standardize=True)
    x, y = problem.further_rows(TABLE.only(["city", "age"]), Y, "more")
    assert (x == problem.x).all()
    assert y.tolist() == Y.tolist()


def test_columns_may_be_declared_also_those_of_an_array() -> None:
    codes = np.array([[7.0], [8], [7], [8]])
    assert prepare(codes, Y, column_types={"x0": "category"}).x.tolist() == [[1, 0, 0], [0, 1, 0], [1, 0, 0], [0, 1, 0]]
    ordered = prepare(TABLE, Y, column_types={"city": ["Rome", "Oslo"]})
    assert ordered.x[:, 1].tolist() == [1, 0, 0, 1]


def test_rows_of_a_validation_set_without_a_label_are_left_out() -> None:
    with pytest.warns(DataWarning, match="without a label in the validation y"):
        x, y = labelled_pair(([[1.0], [2.0]], [NAN, 1.0]))
    assert (x.tolist(), y.tolist()) == ([[2.0]], [1.0])


@pytest.mark.parametrize(
    ("column", "y"),
    [
        (encoded("copy", ["a", "b", "b", "a"]), ["a", "b", "b", "a"]),
        (RawColumn("copy", "number", np.array([0.0, 1, 0, 1])), [0, 1, 0, 1]),
        (RawColumn("copy", "number", np.array([0.0, 1, 0, 1])), [False, True, False, True]),
    ],
)
def test_a_column_that_equals_the_labels_is_refused(column: RawColumn, y: Any) -> None:
    with pytest.raises(InputError, match=r"The column 'copy' of X equals the labels.*leave it out"):
        prepare(RawTable((AGE, column)), y)


def test_a_column_that_says_the_labels_in_other_words_is_noted_where_it_cannot_be_chance() -> None:
    words = encoded("copy", ["yes", "no"] * 10)
    rows = RawTable((RawColumn("age", "number", np.arange(20.0) ** 2), words))
    with pytest.warns(DataWarning, match="The column 'copy' of X says what the labels say in other words"):
        prepare(rows, [1, 0] * 10)
    prepare(rows[:10], [1, 0] * 5)
    prepare(rows, [1, 1, 0, 0] * 5)
