"""Bad input gets one sentence: what is wrong, where, and what to do."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nu_ensembles.checks import check_positive, check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.problem.inputs import check_labels, check_rows, check_weights


@pytest.mark.parametrize(
    ("x", "dtype"),
    [
        (np.ones((2, 3), np.uint8), np.uint8),
        (np.ones((2, 3), np.float32), np.float32),
        (np.ones((2, 3), np.float64), np.float64),
        (np.ones((2, 3), np.float16), np.float32),
        (np.ones((2, 3), np.longdouble), np.float64),
        ([[1, 2], [3, 4]], np.float64),
        ([[True, False]], np.float64),
    ],
)
def test_bytes_stay_bytes_and_other_numbers_become_floats(x: Any, dtype: Any) -> None:
    assert check_rows(x, "X").dtype == dtype


def test_large_whole_numbers_keep_their_differences() -> None:
    assert np.diff(check_rows([[2**40], [2**40 + 1]], "X"), axis=0) == 1


@pytest.mark.parametrize(
    ("x", "sentence"),
    [
        ([["a", "b"]], "X holds <U1 values; give an array of numbers"),
        ([1.0, 2.0], r"X has shape \(2,\); give one row per sample.*x.reshape\(-1, 1\)"),
        (np.float64(3), r"X has shape \(\); give one row per sample"),
        (np.zeros((0, 3)), "X has 0 rows; at least 1 needed"),
        (np.zeros((3, 0)), r"X has 0 feature\(s\)"),
        (np.zeros((2, 3)), r"X has rows of shape \(3,\) where \(2,\) is expected; give it the same columns"),
        (
            [[1, 2], [np.nan, 4], [np.nan, np.inf]],
            r"X contains NaN: 3 value\(s\) not finite, the first in row 1; fill in",
        ),
        ([[1, 2], [3, 4], [5, -np.inf]], r"X contains infinity: 1 value\(s\) not finite, the first in row 2"),
    ],
)
def test_rows_that_cannot_be_used_are_refused(x: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_rows(x, "X", (2,) if np.shape(x)[1:] == (3,) and len(x) else None)


def test_rows_are_counted_from_where_the_part_begins() -> None:
    with pytest.raises(InputError, match="the first in row 101"):
        check_rows([[1.0], [np.nan]], "X", first_row=100)


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    [
        ([3, 1, 3], [1, 3], [1, 0, 1]),
        ([2.0, -1.0], [-1.0, 2.0], [1, 0]),
        (["b", "a", "b"], ["a", "b"], [1, 0, 1]),
        ([True, False], [False, True], [1, 0]),
        (np.array(["x", "y", "x"], object), ["x", "y"], [0, 1, 0]),
    ],
)
def test_labels_of_any_type_become_class_numbers(y: Any, classes: list[Any], codes: list[int]) -> None:
    found, numbers = check_labels(y, None, len(y))
    assert found.tolist() == classes
    assert numbers.tolist() == codes
    assert numbers.dtype == np.int32


def test_classes_may_be_given_in_any_order_and_with_absent_ones() -> None:
    found, codes = check_labels(["b", "a"], ["c", "b", "a"], 2)
    assert found.tolist() == ["c", "b", "a"]
    assert codes.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("y", "classes", "sentence"),
    [
        ([[0, 1]], None, r"y has shape \(1, 2\) where \(2,\) is expected: one label per row"),
        ([0, 1, 1], None, r"y has shape \(3,\) where \(2,\) is expected"),
        ([0.0, np.nan], None, r"y contains NaN or infinity in 1 row\(s\)"),
        ([1.0, 0.5], None, r"y holds fractions \(row 1: 0.5\).*use whole numbers or strings"),
        ([1, 1], None, r"y holds one class only \(1\); a classifier needs at least two"),
        (np.array(["a", 1], object), None, "y mixes labels of different types"),
        (np.array(["a", 1], object), ["a", "b"], "y holds the label 1, which is not among the classes"),
        ([0, 5], [0, 1], r"y holds the label 5, which is not among the classes \[0, 1\]"),
        ([0, 1], [0, 1, 1], r"classes names a class twice: \[0, 1, 1\]"),
    ],
)
def test_labels_that_cannot_be_used_are_refused(y: Any, classes: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_labels(y, classes, 2)


def test_weights_near_the_largest_number_count_as_others_do() -> None:
    np.testing.assert_allclose(check_weights([1e308, 1e308, 0.5e308], 3), [1.2, 1.2, 0.6], rtol=1e-6)


def test_weights_have_mean_one_over_the_rows_that_count() -> None:
    assert check_weights(None, 3).tolist() == [1, 1, 1]
    assert check_weights([0, 1, 3], 3).tolist() == [0, 0.5, 1.5]
    assert check_weights(7.0, 2).tolist() == [1, 1]


@pytest.mark.parametrize(
    ("weight", "sentence"),
    [
        ([1, 2], r"sample_weight has shape \(2,\) where \(3,\) is expected"),
        ([1, -1, 1], "sample_weight must be finite and not negative"),
        ([1, np.nan, 1], "sample_weight must be finite and not negative"),
        ([0, 0, 0], "sample_weight is zero for every row"),
    ],
)
def test_weights_that_cannot_be_used_are_refused(weight: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        check_weights(weight, 3)


@pytest.mark.parametrize("value", [0, -3, 2.0, "2", None, True, np.bool_(True)])
def test_what_is_no_whole_number_above_zero_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="n_members must be a whole number of at least 1, not "):
        check_whole(value, "n_members")


def test_whole_numbers_of_any_kind_are_taken() -> None:
    assert [check_whole(value, "k", least=0) for value in (0, 5, np.int64(7), np.uint8(3))] == [0, 5, 7, 3]


@pytest.mark.parametrize("value", [0, -1, float("nan"), float("inf"), "1", None])
def test_what_is_no_number_above_zero_is_refused(value: Any) -> None:
    with pytest.raises(InputError, match="rate must be a number above 0, not "):
        check_positive(value, "rate")


def test_zero_is_allowed_where_it_makes_sense() -> None:
    assert check_positive(0, "decay", zero_allowed=True) == 0.0
    with pytest.raises(InputError, match="decay must be a number of at least 0, not -1"):
        check_positive(-1, "decay", zero_allowed=True)


@pytest.mark.parametrize("labels", [[2**53 + 1, 2.0], [2**63 + 1, 2**63 + 2, -1], [1e300, 1.0]])
def test_labels_that_floating_point_cannot_tell_apart_are_refused(labels):
    with pytest.raises(InputError, match=r"beyond 2\^53 different labels become the same one"):
        check_labels(labels, None, len(labels))


def test_large_whole_numbers_of_one_type_are_labels():
    classes, codes = check_labels([2**53 + 1, 2**53], None, 2)
    assert classes.tolist() == [2**53, 2**53 + 1]
    assert codes.tolist() == [1, 0]
