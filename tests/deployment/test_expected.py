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
    accuracy_by_validation,
    accuracy_under_shift,
    accuracy_without_shift,
    pair_agreement,
)
from nu_ensembles.deployment.opinions import Opinions, nearest_labels, opinions
from nu_ensembles.errors import InputError

# Eight rows of two classes; the classifier says .9 of all.
PREDICTED = np.array([[0.9, 0.1]] * 6 + [[0.1, 0.9]] * 2)


def of_accuracy(accuracy: float, around: float = 0.1) -> AccuracyEstimate:
    return AccuracyEstimate(accuracy, accuracy - around, accuracy + around, True, "It may be off.")


# The estimate


def test_under_shift_it_lies_between_the_confidence_and_three_opinions_and_is_less_certain_where_they_differ():
    agreed = accuracy_under_shift(Opinions(0.6, 0.6, 0.6), confidence=0.5)
    assert (agreed.accuracy, agreed.low, agreed.high) == pytest.approx((0.55, 0.55 - 0.12, 0.55 + 0.12))
    assert agreed.differs
    apart = accuracy_under_shift(Opinions(0.9, 0.5, 0.7), confidence=0.7)
    assert (apart.accuracy, apart.low, apart.high) == pytest.approx((0.7, 0.7 - 0.12 - 0.2, 1.0))


def test_the_three_opinions_are_of_the_rows_that_were_predicted():
    there = np.array([[0.9, 0.1], [0.8, 0.2], [0.6, 0.4], [0.3, 0.7]])
    # Out of fold three of four are right, so the threshold leaves a quarter of these below it: .6 and a little.
    here = np.array([[0.95, 0.05], [0.9, 0.1], [0.7, 0.3], [0.6, 0.4]])
    found = opinions(there, here, np.array([0, 0, 0, 1]), nearest=np.array([0, 1, 1, 1]))
    assert found.confidence == pytest.approx(0.75)
    assert found.threshold == pytest.approx(0.75)
    assert found.neighbours == pytest.approx(0.5)
    assert found.accuracy == pytest.approx(2 / 3)
    assert found.spread == pytest.approx(0.25)


def test_the_nearest_labelled_rows_say_the_class_and_images_are_rows_too():
    x = np.array([0.0, 0.1, 0.2, 5.0, 5.1, 5.2])[:, None, None] * np.ones((6, 2, 2))
    rows = np.array([0.05, 4.9])[:, None, None] * np.ones((2, 2, 2))
    assert nearest_labels(x, np.array([3, 3, 3, 8, 8, 8]), rows).tolist() == [3, 8]
    assert nearest_labels(x[:2], np.array([1, 0]), rows).tolist() == [0, 0]  # fewer rows than neighbours


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


@given(st.floats(0, 1), st.floats(0, 1), st.floats(0, 1), st.floats(0, 1))
def test_an_interval_holds_its_estimate_and_stays_between_zero_and_one(before, threshold, neighbours, confidence):
    found = accuracy_under_shift(Opinions(before, threshold, neighbours), confidence)
    assert 0 <= found.low <= found.accuracy <= found.high <= 1


def test_labelled_rows_from_there_say_it_even_if_they_are_the_hard_ones():
    hard, easy = np.tile([0.6, 0.4], (40, 1)), np.tile([0.95, 0.05], (40, 1))
    as_sure_as_right = np.repeat([0, 1], [24, 16])
    found = accuracy_by_validation(hard, as_sure_as_right, np.concatenate([hard, easy]))
    assert found.accuracy == pytest.approx((0.6 + 0.95) / 2, abs=0.005)
    assert found.low < 0.68 < 0.85 < found.high
    assert found.limit == "It rests on 40 labelled rows from there."
    mostly_wrong = accuracy_by_validation(hard, 1 - as_sure_as_right, np.concatenate([hard, easy]))
    assert mostly_wrong.accuracy < 0.74


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
