"""Intervals over seeds, paired differences, and their plain-value form."""

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.errors import InputError
from nu_ensembles_studies.demo.comparison import Comparison
from nu_ensembles_studies.results.intervals import METRICS, Interval, student_interval

TWO_ROWS = Comparison(
    rows={"a": "Row A", "b": "Row B"},
    seeds=(7, 8, 9),
    scores={
        "nll": np.array([[0.5, 0.7, 0.9], [0.4, 0.7, 0.7]]),
        "mutual_information": np.array([[1, 2, 3], [math.nan] * 3]),
    },
    reference="a",
)


def test_the_interval_of_three_values_is_that_of_a_table_of_student_t():
    # t(0.975, 2) = 4.30265; s = 1; 4.30265 / sqrt(3) = 2.48414.
    found = student_interval([1.0, 2.0, 3.0])
    assert found.mean == 2.0
    assert found.half_width == pytest.approx(2.48414, abs=1e-5)


def test_one_seed_has_a_mean_and_no_interval():
    found = student_interval([0.25])
    assert found.mean == 0.25
    assert math.isnan(found.half_width)
    assert not found.excludes_zero


def test_no_seed_is_refused():
    with pytest.raises(InputError, match="at least one seed"):
        student_interval([])


@given(st.lists(st.floats(-10, 10), min_size=2, max_size=8), st.floats(-5, 5))
def test_shifting_all_values_moves_the_mean_and_keeps_the_width(values, shift):
    before, after = student_interval(values), student_interval([value + shift for value in values])
    assert after.mean == pytest.approx(before.mean + shift, abs=1e-9)
    assert after.half_width == pytest.approx(before.half_width, abs=1e-7)


def test_differences_are_paired_by_seed():
    # b - a = -0.1, 0, -0.2: mean -0.1, s = 0.1, half width 4.30265 * 0.1 / sqrt(3).
    found = TWO_ROWS.difference("b", "nll")
    assert found.mean == pytest.approx(-0.1)
    assert found.half_width == pytest.approx(0.248414, abs=1e-6)
    assert not found.excludes_zero


def test_an_unknown_row_is_named_with_the_nearest_known_one():
    with pytest.raises(InputError, match="Unknown row 'bb'"):
        TWO_ROWS.mean("bb", "nll")


@pytest.mark.parametrize(
    ("interval", "arguments", "expected"),
    [
        (Interval(0.5124, 0.0204), {}, "0.512 ± 0.020"),
        (Interval(0.853, 0.031), {"digits": 1, "scale": 100}, "85.3 ± 3.1"),
        (Interval(0.0021, 0.005), {"signed": True}, "+0.002 ± 0.005"),
        (Interval(-0.0021, 0.005), {"signed": True}, "−0.002 ± 0.005"),
        (Interval(-0.0001, 0.005), {"signed": True}, "0.000 ± 0.005"),
        (Interval(0.5, math.nan), {}, "0.500"),
        (Interval(math.nan, math.nan), {}, "–"),
    ],
)
def test_an_interval_is_written_as_mean_and_half_width(interval, arguments, expected):
    assert interval.text(**arguments) == expected


def test_a_comparison_survives_strict_json_with_its_missing_values():
    text = json.dumps(TWO_ROWS.to_dict(), allow_nan=False)
    back = Comparison.from_dict(json.loads(text))
    assert back.to_dict() == TWO_ROWS.to_dict()
    assert np.isnan(back.values("b", "mutual_information")).all()
    assert back.seeds == (7, 8, 9)


def test_the_demo_shows_six_metrics():
    assert [metric.key for metric in METRICS] == [
        "accuracy",
        "nll",
        "ece",
        "tace",
        "brier_reliability",
        "mutual_information",
    ]
