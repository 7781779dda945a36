"""Proposition 1 in closed form, by enumeration and by simulation."""

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nu_ensembles import metrics, theory
from nu_ensembles.errors import InputError

GOLDEN = Path(__file__).parents[1] / "golden" / "metrics"
PAIRS = [(K, c) for c in range(2, 13) for K in range(1, c + 1)]


def test_proposition_1_is_its_printed_formula():
    assert theory.expected_variance(10, 10) == pytest.approx(0.045)
    assert theory.expected_variance(4, 4) == pytest.approx(0.5 * 3 / 16)
    for K, c in PAIRS:
        assert theory.expected_variance(K, c) == pytest.approx((K - 1) / (2 * c * K))


@settings(deadline=None)
@given(st.integers(1, 60), st.integers(2, 15))
def test_blocks_of_permutations_have_the_closed_form(K, c):
    # a point's label is equally likely to be any class, so averaging over it for one draw of labels is exact
    fitted = np.arange(K) % c
    members = np.eye(c)[fitted][:, None, :].repeat(c, axis=1)
    exact = theory.empirical_variance(members, np.arange(c))
    assert theory.expected_variance(K, c) == pytest.approx(exact, abs=1e-12)


@pytest.mark.parametrize(("K", "c"), PAIRS)
def test_simulation_matches_proposition_1(K, c):
    simulated = theory.simulated_variance(K, c, n_points=20_000, seed=K + 100 * c)
    # a point contributes (K-1)/(2K²) with probability K/c, else nothing
    deviation = (K - 1) / (2 * K**2) * np.sqrt(K / c * (1 - K / c) / 20_000)
    assert simulated == pytest.approx((K - 1) / (2 * c * K), abs=4 * deviation + 1e-12)


@pytest.mark.parametrize(("K", "c"), [(3, 2), (7, 3), (10, 4), (25, 10)])
def test_simulation_matches_the_closed_form_beyond_the_number_of_classes(K, c):
    simulated = theory.simulated_variance(K, c, n_points=50_000)
    assert simulated == pytest.approx(theory.expected_variance(K, c), rel=0.02)


@pytest.mark.parametrize(("K", "c"), [(2, 3), (5, 5), (8, 3)])
def test_labels_with_replacement_buy_less_variance(K, c):
    with_replacement = theory.expected_variance(K, c, labels="with_replacement")
    simulated = theory.simulated_variance(K, c, n_points=50_000, labels="with_replacement")
    assert simulated == pytest.approx(with_replacement, rel=0.03)
    assert with_replacement < theory.expected_variance(K, c)


@pytest.mark.parametrize("labels", ["shared", "uniform"])
def test_members_that_fit_the_same_thing_have_no_variance(labels):
    assert theory.expected_variance(5, 10, labels=labels) == 0.0
    assert theory.simulated_variance(5, 10, n_points=100, labels=labels) == 0.0


def test_random_labels_of_the_package_reach_proposition_1():
    labels = pytest.importorskip("nu_ensembles.methods.labels")
    fitted = np.asarray(labels.random_labels(0, n_points=500, n_classes=6, n_members=6))
    members = np.eye(6)[fitted]
    truth = np.random.default_rng(0).integers(0, 6, 500)
    assert theory.empirical_variance(members, truth) == pytest.approx(theory.expected_variance(6, 6))


def test_empirical_variance_of_the_stored_case_is_proposition_1():
    expected = json.loads((GOLDEN / "expected.json").read_text(encoding="utf-8"))["cases"]["edge_prop1_k10_c10"]
    with np.load(GOLDEN / "edge_prop1_k10_c10.npz", allow_pickle=False) as stored:
        value = theory.empirical_variance(stored["probs"], stored["labels"])
        assert value == metrics.variance(stored["probs"], stored["labels"])
    assert value == pytest.approx(expected["expected"]["v_hat"])
    assert value == pytest.approx(theory.expected_variance(10, 10))


def test_variance_grows_with_members_up_to_the_number_of_classes():
    values = [theory.expected_variance(K, 10) for K in range(1, 11)]
    assert values == sorted(values)
    assert theory.expected_variance(11, 10) < theory.expected_variance(20, 10) == pytest.approx(0.045)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: theory.expected_variance(0, 10), "at least one member"),
        (lambda: theory.expected_variance(3, 1), "two classes"),
        (lambda: theory.expected_variance(3, 10, labels="without-replacement"), "without_replacement"),
        (lambda: theory.simulated_variance(3, 10, n_points=0), "n_points"),
        (lambda: theory.simulated_variance(3, 10, labels="nonsense"), "Unknown label scheme"),
    ],
)
def test_impossible_arguments_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
