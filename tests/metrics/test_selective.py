"""Ranking by confidence: AUROC, risk and coverage."""

import math

import numpy as np
import pytest

from nu_ensembles import metrics


def two_class(confidence):
    confidence = np.asarray(confidence)
    return np.stack([confidence, 1 - confidence], axis=1)


def test_error_auroc_is_one_when_errors_are_the_least_confident():
    assert metrics.error_auroc(two_class([0.9, 0.8, 0.7, 0.6]), [0, 0, 1, 1]) == 1.0
    assert metrics.error_auroc(two_class([0.9, 0.8, 0.7, 0.6]), [1, 1, 0, 0]) == 0.0


def test_equal_confidences_count_half():
    assert metrics.error_auroc(two_class([0.8, 0.8, 0.8]), [0, 1, 0]) == 0.5


def test_error_auroc_without_errors_does_not_exist():
    assert math.isnan(metrics.error_auroc(two_class([0.9, 0.8]), [0, 0]))
    assert math.isnan(metrics.error_auroc(two_class([0.9, 0.8]), [1, 1]))


def test_risk_and_coverage_at_every_threshold():
    curve = metrics.risk_coverage(two_class([0.9, 0.8, 0.8, 0.6]), [0, 1, 0, 1])
    np.testing.assert_allclose(curve.coverage, [0.25, 0.75, 1.0])
    np.testing.assert_allclose(curve.risk, [0.0, 1 / 3, 0.5])
    np.testing.assert_allclose(curve.threshold, [0.9, 0.8, 0.6])


def test_aurc_averages_the_risk_over_all_coverages():
    assert metrics.aurc(two_class([0.9, 0.8, 0.7, 0.6]), [0, 1, 0, 1]) == pytest.approx((0 + 1 / 2 + 1 / 3 + 2 / 4) / 4)


def test_aurc_with_ties_is_the_mean_over_their_orders():
    tied = metrics.aurc(two_class([0.9, 0.7, 0.7]), [0, 1, 0])
    wrong_first = metrics.aurc(two_class([0.9, 0.71, 0.7]), [0, 1, 0])
    wrong_last = metrics.aurc(two_class([0.9, 0.7, 0.71]), [0, 1, 0])
    assert tied == pytest.approx((wrong_first + wrong_last) / 2)


def test_without_any_ranking_aurc_is_the_error_rate():
    assert metrics.aurc(two_class([0.8] * 4), [0, 1, 0, 1]) == pytest.approx(0.5)


@pytest.mark.parametrize("score", ["confidence", "entropy", "epistemic"])
def test_foreign_inputs_that_split_the_members_are_found(score):
    familiar = np.array([[[0.95, 0.05], [0.9, 0.1]], [[0.93, 0.07], [0.88, 0.12]]])
    foreign = np.array([[[0.9, 0.1]], [[0.1, 0.9]]])
    assert metrics.ood_auroc(familiar, foreign, score=score) == 1.0
    assert metrics.ood_auroc(foreign, familiar, score=score) == 0.0
