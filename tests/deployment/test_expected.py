"""What is expected of unlabelled rows, and what labelled ones say of it."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.deployment import DeploymentExpectation, confirm, expect
from nu_ensembles.deployment.accuracy import (
    AccuracyEstimate,
    accuracy_by_agreement,
    accuracy_under_shift,
    accuracy_without_shift,
    pair_agreement,
)
from nu_ensembles.errors import InputError

# Eight rows of two classes; the classifier says .9 of all.
PREDICTED = np.array([[0.9, 0.1]] * 6 + [[0.1, 0.9]] * 2)


def of_accuracy(accuracy: float, around: float = 0.1) -> AccuracyEstimate:
    return AccuracyEstimate(accuracy, accuracy - around, accuracy + around, True, "It may be off.")


# The estimate


def test_under_shift_it_is_the_confidence_and_predictions_that_turn_over_make_it_less_certain():
    found = accuracy_under_shift(confidence=0.6, flipped=0.25)
    assert found.accuracy == pytest.approx(0.6)
    assert (found.low, found.high) == (pytest.approx(0.6 - 0.24 - 0.1), pytest.approx(0.6 + 0.25 + 0.025))
    assert found.differs


def test_without_a_probe_agreement_of_members_takes_its_place():
    members = np.array([[[0.8, 0.2]] * 4, [[0.8, 0.2]] * 2 + [[0.2, 0.8]] * 2])
    assert pair_agreement(members).tolist() == [1, 1, 0, 0]
    assert accuracy_by_agreement(members).accuracy == pytest.approx((0.8 + 0.8 + 0.5 + 0.5) / 4 * 0.5)


def test_without_shift_it_is_the_accuracy_out_of_fold():
    found = accuracy_without_shift(np.array([True] * 80 + [False] * 20), n_unlabeled=1000)
    assert found.accuracy == pytest.approx(0.8)
    assert 0.70 < found.low < 0.75 < 0.85 < found.high < 0.88
    assert not found.differs


def test_few_unlabelled_rows_vary_themselves():
    right = np.array([True] * 80 + [False] * 20)
    many, few = (accuracy_without_shift(right, n) for n in (10_000, 20))
    assert few.high - few.low > 1.5 * (many.high - many.low)


@given(st.floats(0, 1), st.floats(0, 1))
def test_an_interval_holds_its_estimate_and_stays_between_zero_and_one(confidence, flipped):
    found = accuracy_under_shift(confidence, flipped)
    assert 0 <= found.low <= found.accuracy <= found.high <= 1


# What follows from it


def test_errors_and_confidence_follow_from_the_accuracy():
    found = expect(of_accuracy(0.7), PREDICTED, ["cat", "dog"])
    assert found.accuracy == 0.7
    assert found.confidence == pytest.approx(0.9)
    assert found.confidence_when_wrong == pytest.approx(0.9)
    assert found.by_class["cat"].predicted_rows == 6
    assert found.by_class["dog"].error == pytest.approx(0.3, abs=1e-6)
    assert found.temperatures[0] > 1  # it is surer than it should be


def test_the_expectation_goes_through_json_unchanged():
    found = expect(of_accuracy(0.7), PREDICTED, ["cat", "dog"])
    assert DeploymentExpectation.from_dict(json.loads(json.dumps(found.to_dict()))) == found


def test_a_class_that_is_never_predicted_is_left_out():
    assert list(expect(of_accuracy(0.7), PREDICTED[:6], [0, 1]).by_class) == ["0"]


# Whether it stood


@pytest.mark.parametrize(("n_right", "stood"), [(14, True), (18, True), (10, True), (3, False)])
def test_twenty_rows_say_whether_seventy_percent_stood(n_right, stood):
    expected = expect(of_accuracy(0.7), PREDICTED, ["cat", "dog"])
    labels = np.array([0] * n_right + [1] * (20 - n_right))
    found = confirm(expected, np.tile([0.9, 0.1], (20, 1)), labels)
    assert found.stood is stood
    assert found.accuracy == n_right / 20
    assert ("did not stand" in found.sentence) is not stood


def test_hard_rows_are_expected_to_be_wrong_more_often():
    expected = expect(of_accuracy(0.7), PREDICTED, ["cat", "dog"])
    hard = np.tile([0.52, 0.48], (20, 1))
    labels = np.array([0] * 10 + [1] * 10)
    found = confirm(expected, hard, labels)
    assert found.expected < 0.55
    assert found.stood


def test_a_handful_of_rows_is_needed():
    expected = expect(of_accuracy(0.7), PREDICTED, ["cat", "dog"])
    with pytest.raises(InputError, match="3 labelled rows, which confirm nothing"):
        confirm(expected, PREDICTED[:3], np.zeros(3, int))
