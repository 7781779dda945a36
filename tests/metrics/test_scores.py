"""Accuracy, NLL and Brier score on predictions that fit in the head."""

import math

import numpy as np
import pytest

from nu_ensembles import metrics

PROBS = [[0.5, 0.25, 0.25], [0.1, 0.8, 0.1], [0.4, 0.4, 0.2]]
LABELS = [0, 2, 1]


def test_accuracy_counts_a_tie_for_the_lowest_class():
    assert metrics.accuracy(PROBS, LABELS) == pytest.approx(1 / 3)
    assert metrics.accuracy(PROBS, [0, 1, 0]) == 1.0


def test_nll_is_the_mean_negative_logarithm_in_nats():
    assert metrics.nll(PROBS, LABELS) == pytest.approx(-(math.log(0.5) + math.log(0.1) + math.log(0.4)) / 3)


def test_nll_of_an_ensemble_is_taken_after_averaging():
    members = [[[0.9, 0.1]], [[0.3, 0.7]]]
    assert metrics.nll(members, [0]) == pytest.approx(-math.log(0.6))


def test_nll_is_infinite_where_a_label_has_probability_zero():
    assert metrics.nll([[1.0, 0.0], [0.5, 0.5]], [1, 0]) == math.inf


def test_brier_sums_squares_over_classes():
    first = 0.5**2 + 0.25**2 + 0.25**2
    second = 0.1**2 + 0.8**2 + 0.9**2
    third = 0.4**2 + 0.6**2 + 0.2**2
    assert metrics.brier(PROBS, LABELS) == pytest.approx((first + second + third) / 3)


@pytest.mark.parametrize(("label", "expected"), [(0, 0.0), (1, 2.0)])
def test_brier_runs_from_zero_to_two(label, expected):
    assert metrics.brier([[1.0, 0.0]], [label]) == expected


def test_a_uniform_guess_scores_log_c():
    assert metrics.nll(np.full((5, 4), 0.25), [0, 1, 2, 3, 0]) == pytest.approx(math.log(4))
