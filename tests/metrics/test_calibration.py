"""ECE and its variants: bins, edges, noise."""

import numpy as np
import pytest

from nu_ensembles import metrics
from nu_ensembles.metrics.calibration import equal_width_bins


def two_class(confidence):
    confidence = np.asarray(confidence)
    return np.stack([confidence, 1 - confidence], axis=1)


def test_bins_are_closed_on_the_right():
    assert equal_width_bins(np.array([0.0, 0.1, 0.2, 0.2000001, 1.0]), 5).tolist() == [0, 0, 0, 1, 4]


def test_ece_is_the_weighted_gap_of_each_bin():
    # bin (0.6, 0.7]: confidence 0.65, one of two right; bin (0.9, 1]: confidence 0.95, three of three right
    probs = two_class([0.64, 0.66, 0.94, 0.95, 0.96])
    assert metrics.ece(probs, [0, 1, 0, 0, 0], n_bins=10) == pytest.approx(0.4 * 0.15 + 0.6 * 0.05)


def test_ece_of_one_bin_is_the_overconfidence():
    probs = two_class([0.6, 0.7, 0.8, 0.9])
    assert metrics.ece(probs, [0, 1, 0, 1], n_bins=1) == pytest.approx(0.75 - 0.5)


def test_gaps_that_cancel_in_a_bin_hide_from_ece():
    probs = two_class([0.61, 0.61, 0.65, 0.65])
    assert metrics.ece(probs, [0, 1, 0, 0], n_bins=5) < metrics.ece(probs, [0, 1, 0, 0], n_bins=50)


def test_plain_ece_of_a_calibrated_predictor_is_not_zero_and_debiasing_takes_most_of_it_off(calibrated):
    runs = [calibrated(500, 10, seed) for seed in range(40)]
    plain = np.mean([metrics.ece(*run) for run in runs])
    debiased = np.mean([metrics.ece(*run, debias=True) for run in runs])
    assert plain > 0.05
    assert debiased < 0.5 * plain


def test_debiasing_leaves_a_large_error_alone():
    probs = two_class(np.full(1000, 0.99))
    labels = np.arange(1000) % 2
    assert metrics.ece(probs, labels, debias=True) == pytest.approx(metrics.ece(probs, labels), rel=1e-3)


def test_classes_that_cancel_hide_from_ece_but_not_from_the_variants():
    # class 0 is predicted with 0.8 and always right, class 1 with 0.8 and right 6 times of 10
    probs = np.array([[0.8, 0.2]] * 10 + [[0.2, 0.8]] * 10)
    labels = [0] * 10 + [1] * 6 + [0] * 4
    assert metrics.ece(probs, labels) == pytest.approx(0.0, abs=1e-12)
    assert metrics.top_label_ece(probs, labels) == pytest.approx(0.2)
    assert metrics.classwise_ece(probs, labels) == pytest.approx(0.2)


def test_classwise_ece_averages_over_classes():
    # only bin (0.4, 0.6] is used: class 0 states 0.5 and happens always, class 1 states 0.5 and never does
    probs = np.array([[0.5, 0.5, 0.0]] * 4)
    assert metrics.classwise_ece(probs, [0, 0, 0, 0], n_bins=5) == pytest.approx((0.5 + 0.5 + 0.0) / 3)
