"""TACE: what is left out, where the bins are cut, what the two variants divide by."""

import numpy as np
import pytest

from nu_ensembles import metrics


def test_bins_hold_equally_many_values_and_the_last_takes_the_rest():
    # five samples, two bins: the lowest two values, then three; class 1 mirrors class 0
    low = np.array([0.1, 0.2, 0.3, 0.4, 0.5])
    probs = np.stack([low, 1 - low], axis=1)
    labels = [1, 1, 0, 1, 0]
    class_0 = abs(0.1 + 0.2 - 0) + abs(0.3 + 0.4 + 0.5 - 2)
    class_1 = abs(0.5 + 0.6 - 1) + abs(0.7 + 0.8 + 0.9 - 2)
    assert metrics.tace(probs, labels, n_bins=2) == pytest.approx((class_0 + class_1) / (5 * 2))


def test_probabilities_up_to_the_threshold_are_left_out():
    probs = np.array([[0.999, 0.001], [0.99, 0.01]])
    # class 1 keeps only 0.01, both classes have one bin that is not empty
    assert metrics.tace(probs, [0, 0]) == pytest.approx((abs(0.999 + 0.99 - 2) + 0.01) / (2 * 2))


def test_fewer_values_than_bins_form_one_bin():
    probs = np.array([[0.6, 0.4], [0.7, 0.3], [0.8, 0.2]])
    assert metrics.tace(probs, [0, 0, 1]) == pytest.approx((abs(2.1 - 2) + abs(0.9 - 1)) / (3 * 2))


def test_the_nixon_variant_divides_by_what_is_kept():
    probs = np.array([[0.995, 0.005], [0.6, 0.4]])
    # class 0: values .6 and .995 lie in bins of their own; class 1 keeps .4 alone
    class_0 = (abs(0.6 - 0) + abs(0.995 - 1)) / 2
    class_1 = abs(0.4 - 1) / 1
    assert metrics.tace(probs, [0, 1], variant="nixon") == pytest.approx((class_0 + class_1) / 2)


def test_a_class_below_the_threshold_everywhere_counts_as_zero():
    probs = np.array([[0.9995, 0.0005]] * 3)
    assert metrics.tace(probs, [0, 0, 0]) == pytest.approx(3 * 0.0005 / (3 * 2))
    assert metrics.tace(probs, [0, 0, 0], variant="nixon") == pytest.approx(0.0005 / 2)


def test_the_nixon_variant_keeps_ties_together():
    # all values equal: one bin, whatever the number of bins; the ranked bins of the paper cut through the ties
    probs = np.full((30, 2), 0.5)
    labels = [0] * 15 + [1] * 15
    assert metrics.tace(probs, labels, variant="nixon") == 0.0
    assert metrics.tace(probs, labels) == pytest.approx(28 / 60)
