"""Pools of several classifiers' probabilities, and the weights that suit them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nu_ensembles.calibration import pool, pooling_weights
from nu_ensembles.errors import InputError

SURE, UNSURE = [[0.9, 0.1]], [[0.5, 0.5]]


def test_a_geometric_pool_averages_log_odds_and_an_arithmetic_one_probabilities() -> None:
    np.testing.assert_allclose(pool([SURE, UNSURE]), [[0.75, 0.25]])  # odds √9
    np.testing.assert_allclose(pool([SURE, UNSURE], pooling="arithmetic"), [[0.7, 0.3]])


def test_only_the_ratios_of_weights_matter() -> None:
    np.testing.assert_allclose(pool([SURE, UNSURE], [2.0, 0.0]), SURE)
    np.testing.assert_allclose(pool([SURE, UNSURE], [1e300, 3e300], "arithmetic"), [[0.6, 0.4]])


def test_zeros_of_one_classifier_do_not_make_nan_of_the_pool() -> None:
    opposed = pool([[[1.0, 0.0]], [[0.0, 1.0]]])
    np.testing.assert_allclose(opposed, [[0.5, 0.5]])


@pytest.mark.parametrize("pooling", ["geometric", "arithmetic"])
def test_weights_go_to_the_classifier_that_knows_more(pooling: str) -> None:
    rng = np.random.default_rng(0)
    truth = rng.dirichlet(np.full(3, 0.5), 300)
    labels = (rng.random(300)[:, None] > truth.cumsum(axis=1)).sum(axis=1)
    guess = np.full((300, 3), 1 / 3)
    weights = pooling_weights([truth, guess], labels, pooling)
    assert weights[0] > 0.8
    assert weights.sum() == pytest.approx(1.0)
    few = pooling_weights([truth[:20], guess[:20]], labels[:20], pooling)
    assert 0.5 < few[0] < weights[0]


@pytest.mark.parametrize("pooling", ["geometric", "arithmetic"])
def test_the_weights_minimise_nll_and_prior(pooling: str) -> None:
    rng = np.random.default_rng(1)
    parts, labels = rng.dirichlet(np.ones(4), (2, 40)), rng.integers(0, 4, 40)
    found = pooling_weights(list(parts), labels, pooling, prior=3.0)

    def objective(first: float) -> float:
        weights = np.array([first, 1 - first])
        nll = -np.log(pool(list(parts), weights, pooling)[np.arange(40), labels]).sum()
        return nll + 3.0 * float(weights @ np.log(2 * weights))

    assert objective(found[0]) <= min(objective(first) for first in np.linspace(0.001, 0.999, 999)) + 1e-9


def test_a_row_of_weight_zero_has_no_say() -> None:
    parts = [np.array([[0.9, 0.1], [0.1, 0.9]]), np.array([[0.4, 0.6], [0.6, 0.4]])]
    weighted = pooling_weights(parts, [0, 0], weight=[1.0, 0.0])
    np.testing.assert_allclose(weighted, pooling_weights([part[:1] for part in parts], [0]))


def test_one_classifier_has_all_the_weight_and_an_endless_prior_makes_equals() -> None:
    np.testing.assert_array_equal(pooling_weights([SURE], [0]), [1.0])
    np.testing.assert_allclose(pooling_weights([SURE, UNSURE], [0], prior=1e12), [0.5, 0.5])


@settings(max_examples=30)
@given(seed=st.integers(0, 10_000), n_parts=st.integers(2, 4), pooling=st.sampled_from(["geometric", "arithmetic"]))
def test_the_order_of_the_classifiers_does_not_matter(seed: int, n_parts: int, pooling: str) -> None:
    rng = np.random.default_rng(seed)
    parts, labels = list(rng.dirichlet(np.full(3, 0.2), (n_parts, 12))), rng.integers(0, 3, 12)
    weights = pooling_weights(parts, labels, pooling)
    np.testing.assert_allclose(pooling_weights(parts[::-1], labels, pooling), weights[::-1], atol=1e-5)
    np.testing.assert_allclose(pool(parts[::-1], weights[::-1], pooling), pool(parts, weights, pooling), atol=1e-12)


def test_misuse_is_explained() -> None:
    with pytest.raises(InputError, match=r"Unknown pooling 'geometrical'. Did you mean 'geometric'"):
        pool([SURE], pooling="geometrical")
    with pytest.raises(InputError, match="nothing to pool"):
        pool([])
    with pytest.raises(InputError, match=r"shapes .* alike for each"):
        pool([SURE, [[0.2, 0.3, 0.5]]])
    for weights in ([1.0], [1.0, -1.0], [0.0, 0.0], [np.nan, 1.0], "equal"):
        with pytest.raises(InputError, match="give 2 finite numbers of at least 0"):
            pool([SURE, UNSURE], weights)
