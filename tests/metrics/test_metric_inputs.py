"""Bad input gets one sentence that says what to do."""

import numpy as np
import pytest

from nu_ensembles import metrics
from nu_ensembles.errors import InputError

GOOD = [[0.7, 0.3], [0.2, 0.8]]


@pytest.mark.parametrize(
    ("probs", "labels", "message"),
    [
        ([[0.7, 0.2], [0.2, 0.8]], [0, 1], "sum to one"),
        ([[1.2, -0.2], [0.2, 0.8]], [0, 1], "negative value -0.2"),
        ([[np.nan, 0.3], [0.2, 0.8]], [0, 1], "NaN"),
        ([[np.inf, 0.3], [0.2, 0.8]], [0, 1], "NaN or infinity"),
        ([[-np.inf, 1.0], [0.2, 0.8]], [0, 1], "NaN or infinity"),
        ([[2.5, -1.0], [0.3, 4.0]], [0, 1], "look like logits"),
        ([[2.5, 1.0], [0.3, 4.0]], [0, 1], "look like logits"),
        (np.log([[0.7, 0.3], [0.2, 0.8]]), [0, 1], "log-probabilities"),
        ([[0.0, -np.inf], [-np.inf, 0.0]], [0, 1], "log-probabilities"),
        (GOOD, [0, 2], "0 … 1"),
        (GOOD, [-1, 1], "0 … 1"),
        (GOOD, [0, 1, 1], "one integer per sample"),
        (GOOD, [[0, 1]], "one integer per sample"),
        (GOOD, [0.0, 0.5], "integers"),
        (GOOD, ["a", "b"], "integers"),
        (GOOD, [np.nan, 0.0], "integers"),
        ([0.7, 0.3], [0], "shape"),
        (np.ones((2, 2, 2, 2, 2)) / 2, [0, 1], "shape"),
        (np.zeros((3, 0, 2)), [], "at least one sample"),
        ([[1.0], [1.0]], [0, 0], "both columns"),
        ([["a", "b"]], [0], "dtype"),
        ([[0.5 + 0j, 0.5]], [0], "dtype"),
    ],
)
@pytest.mark.parametrize("score", [metrics.evaluate, metrics.ece, metrics.nll, metrics.brier_decomposition])
def test_bad_input_is_a_value_error_that_says_what_is_wrong(score, probs, labels, message):
    with pytest.raises(ValueError, match=message) as caught:
        score(probs, labels)
    assert isinstance(caught.value, InputError)
    assert "\n" not in str(caught.value)


def test_rows_may_be_off_by_rounding():
    assert metrics.accuracy([[0.7004, 0.3], [0.2, 0.8]], [0, 1]) == 1.0


def test_half_precision_may_be_off_by_more():
    third = np.full((4, 3), 1 / 3, np.float16)
    third[:, 0] += np.float16(0.005)
    assert metrics.accuracy(third, [0, 0, 0, 0]) == 1.0
    with pytest.raises(InputError, match="sum to one"):
        metrics.accuracy(third.astype(np.float32), [0, 0, 0, 0])


def test_integers_booleans_and_whole_floats_are_fine():
    assert metrics.accuracy([[1, 0], [0, 1]], np.array([0.0, 1.0])) == 1.0
    assert metrics.accuracy(np.eye(2, dtype=bool), np.array([False, True])) == 1.0


def test_the_input_is_not_changed():
    probs, labels = np.array(GOOD), np.array([0, 1])
    before = probs.copy()
    metrics.evaluate(probs, labels, intervals=0.9, n_resamples=3)
    np.testing.assert_array_equal(probs, before)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: metrics.ece(GOOD, [0, 1], n_bins=0), "n_bins"),
        (lambda: metrics.tace(GOOD, [0, 1], n_bins=0), "n_bins"),
        (lambda: metrics.tace(GOOD, [0, 1], variant="nixen"), "Did you mean 'nixon'"),
        (lambda: metrics.brier_decomposition(GOOD, [0, 1], method="exakt"), "Did you mean 'exact'"),
        (lambda: metrics.ood_auroc(GOOD, GOOD, score="entropie"), "Did you mean 'entropy'"),
        (lambda: metrics.ood_auroc(GOOD, [[0.2, 0.3, 0.5]]), "2 and 3 classes"),
        (lambda: metrics.evaluate(GOOD, [0, 1], intervals=95), "between 0 and 1"),
        (lambda: metrics.evaluate(GOOD, [0, 1], n_resamples=0), "at least 1"),
        (lambda: metrics.evaluate([], [0, 1]), "No predictions"),
    ],
)
def test_unknown_or_impossible_options_are_named(call, message):
    with pytest.raises(InputError, match=message):
        call()
