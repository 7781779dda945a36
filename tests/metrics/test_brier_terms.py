"""The two decompositions of the Brier score."""

import numpy as np
import pytest

from nu_ensembles import metrics


def add_up(terms):
    return terms.reliability - terms.resolution + terms.uncertainty


def test_argmax_terms_of_four_samples():
    probs = np.array([[0.9, 0.1], [0.7, 0.3], [0.4, 0.6], [0.2, 0.8]])
    terms = metrics.brier_decomposition(probs, [0, 1, 1, 1])
    # predicted 0: label frequencies (1/2, 1/2); predicted 1: (0, 1); overall (1/4, 3/4)
    assert terms.uncertainty == pytest.approx(1 - (1 / 16 + 9 / 16))
    assert terms.resolution == pytest.approx(0.5 * 2 * 0.25**2 + 0.5 * 2 * 0.25**2)
    assert terms.reliability == pytest.approx((2 * 0.4**2 + 2 * 0.2**2 + 2 * 0.4**2 + 2 * 0.2**2) / 4)


def test_exact_terms_add_up_and_argmax_terms_do_not(calibrated):
    probs, labels = calibrated(400, 5, seed=0)
    score = metrics.brier(probs, labels)
    exact = metrics.brier_decomposition(probs, labels, method="exact")
    assert add_up(exact) == pytest.approx(score, abs=1e-12)
    assert abs(add_up(metrics.brier_decomposition(probs, labels)) - score) > 0.02


def test_a_calibrated_predictor_has_no_exact_reliability_but_a_large_argmax_one(calibrated):
    runs = [calibrated(1000, 10, seed) for seed in range(10)]
    exact = [metrics.brier_decomposition(*run, method="exact").reliability for run in runs]
    argmax = [metrics.brier_decomposition(*run).reliability for run in runs]
    assert np.mean(exact) < 0.005
    assert np.mean(argmax) == pytest.approx(0.09, abs=0.02)


def test_exact_reliability_sees_overconfidence(calibrated):
    probs, labels = calibrated(4000, 3, seed=1)
    sharper = probs**3 / (probs**3).sum(axis=1, keepdims=True)
    before = metrics.brier_decomposition(probs, labels, method="exact")
    after = metrics.brier_decomposition(sharper, labels, method="exact")
    assert before.reliability < 0.005
    assert after.reliability > 0.03
    assert after.uncertainty == before.uncertainty


def test_a_perfect_predictor_resolves_all_uncertainty():
    labels = np.array([0, 1, 2, 2])
    for method in ("argmax", "exact"):
        terms = metrics.brier_decomposition(np.eye(3)[labels], labels, method=method)
        assert terms.reliability == pytest.approx(0.0, abs=1e-12)
        assert terms.resolution == pytest.approx(terms.uncertainty)


def test_terms_have_names_and_an_order():
    terms = metrics.brier_decomposition([[0.6, 0.4]], [0])
    assert terms._fields == ("reliability", "resolution", "uncertainty")
