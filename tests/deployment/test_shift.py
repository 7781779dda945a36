"""Whether labelled and unlabelled rows come from the same distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from nu_ensembles.deployment.shift import LEVEL, Shift, _auroc, differs_from_all_labelled, power_of, two_sample_test
from nu_ensembles.deployment.telling_apart import PERMUTATIONS
from nu_ensembles.problem import prepare


def test_rows_of_one_distribution_cannot_be_told_apart():
    rng = np.random.default_rng(0)
    found = two_sample_test(rng.normal(size=(80, 4)), rng.normal(size=(200, 4)), ["a", "b", "c", "d"])
    assert found is not None
    assert found.low < 0.5 < found.high
    assert found.p_value > 0.05
    assert found.features == ()


def test_a_moved_column_is_found_and_named():
    rng = np.random.default_rng(0)
    moved = rng.normal(size=(80, 4)) + np.array([0, 0, 3, 0])
    found = two_sample_test(moved, rng.normal(size=(200, 4)), ["a", "b", "c", "d"])
    assert found is not None
    assert found.auroc > 0.9
    assert found.p_value == 1 / (1 + PERMUTATIONS), "no permutation comes near"
    assert found.features == ("c",)


def test_a_wider_spread_around_the_same_mean_is_found():
    rng = np.random.default_rng(0)
    found = two_sample_test(3 * rng.normal(size=(150, 4)), rng.normal(size=(150, 4)))
    assert found is not None
    assert found.auroc > 0.8


def test_images_are_compared_by_their_principal_components():
    rng = np.random.default_rng(0)
    dark, bright = rng.integers(0, 100, (40, 8, 8, 1)), rng.integers(50, 256, (60, 8, 8, 1))
    found = two_sample_test(dark.astype(np.uint8), bright.astype(np.uint8))
    assert found is not None
    assert found.auroc > 0.95


def test_constant_columns_tell_nothing():
    assert two_sample_test(np.ones((20, 3)), np.ones((30, 3))) == Shift(0.5, 0.5, 0.5, 1.0, power=power_of(20, 30))


@pytest.mark.parametrize(("n", "m", "least", "most"), [(10, 10, 0.1, 0.5), (50, 500, 0.99, 1.0), (100, 100, 0.99, 1.0)])
def test_the_power_grows_with_the_rows(n, m, least, most):
    assert least < power_of(n, m) <= most


def test_the_power_is_that_of_scores_with_the_named_auroc():
    rng = np.random.default_rng(0)
    n, m = 12, 30
    found = 0
    for _ in range(400):
        # Normal scores whose means lie .954 apart have an AUROC of .75.
        scores, inside = np.r_[rng.normal(0.954, 1, n), rng.normal(size=m)], np.repeat([True, False], [n, m])
        auroc, _ = _auroc(scores, inside)
        found += auroc > 0.5 + 2.326 * ((n + m + 1) / (12 * n * m)) ** 0.5
    assert LEVEL == 0.01
    assert found / 400 == pytest.approx(power_of(n, m), abs=0.07)


def test_a_significant_difference_is_one_and_certainty_is_no_overlap():
    assert Shift(0.8, 0.7, 0.9, 0.001).differs
    assert not Shift(0.8, 0.7, 0.9, 0.02).differs
    assert Shift(0.999, 0.99, 1.0, 1e-9).is_disjoint
    assert not Shift(0.9, 0.8, 1.0, 1e-9).is_disjoint
    assert (Shift(0.8, 0.7, 0.9, 0.02).statistic, Shift(0.8, 0.7, 0.9, 0.02).p) == (0.8, 0.02)


def test_labels_tell_of_the_unlabelled_rows_where_these_or_those_of_the_validation_come_from_one_place():
    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(40, 2)).astype(np.float32), rng.normal(size=(60, 2)).astype(np.float32) + 1
    problem = prepare(x, np.arange(40) % 2, u, standardize=False)
    differs, same = Shift(0.97, 0.95, 0.99, 1e-9), Shift(0.97, 0.95, 0.99, 0.2)
    assert differs_from_all_labelled(differs, problem)
    assert not differs_from_all_labelled(same, problem)
    assert not differs_from_all_labelled(None, problem)
    assert not differs_from_all_labelled(differs, problem, u[:20])
    assert differs_from_all_labelled(differs, problem, u[:20] - 9)


def test_a_handful_of_rows_is_not_tested():
    assert two_sample_test(np.zeros((9, 2)), np.zeros((100, 2))) is None


@pytest.mark.parametrize("heavy_tailed", [False, True])
def test_chance_is_called_a_difference_no_more_often_than_the_p_value_says(heavy_tailed):
    rng = np.random.default_rng(5)
    p_values = []
    for _ in range(100):
        rows = rng.standard_t(2, (50, 3)) if heavy_tailed else rng.integers(0, 3, (50, 3)).astype(float)
        found = two_sample_test(rows[:15], rows[15:])
        assert found is not None
        p_values.append(found.p_value)
    # Of uniform p-values 10 and 50 are expected; these are four standard deviations more.
    assert np.sum(np.array(p_values) <= 0.1) <= 22
    assert np.sum(np.array(p_values) <= 0.5) <= 70


@pytest.mark.parametrize(
    "moved", [lambda rows: rows[:, [1, 0]], lambda rows: 2.5 * rows, lambda rows: np.add(rows, [1, 0])]
)
def test_what_changed_may_be_how_columns_go_together_the_spread_or_the_mean(moved):
    rng = np.random.default_rng(2)
    first = rng.normal(size=(300, 1)) * [2.0, 1.0] + 0.3 * rng.normal(size=(300, 2))
    found = two_sample_test(first[:100], moved(first[100:]))
    assert found is not None
    assert found.differs


@given(st.lists(st.tuples(st.integers(0, 5), st.booleans()), min_size=4, max_size=40))
def test_the_auroc_counts_ties_as_one_half(pairs):
    scores, positive = (np.array(column) for column in zip(*pairs, strict=True))
    if not 2 <= positive.sum() <= len(positive) - 2:
        return
    auroc, error = _auroc(scores.astype(float), positive)
    assert auroc == pytest.approx(roc_auc_score(positive, scores))
    assert 0 <= error <= 0.71
