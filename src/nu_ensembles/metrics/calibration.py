"""Expected calibration error of the top label (Section 5.1, Table 1).

A binned plug-in estimate, and therefore biased upwards: a perfectly calibrated predictor does not score 0 on
finite data. The paper's other calibration error, TACE, is in `equal_mass`.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nu_ensembles.checks import check_flag, check_whole, checked
from nu_ensembles.metrics.inputs import Predictions, check_predictions
from nu_ensembles.metrics.weighting import Values, Weights, divide, group_sums, unit_weights

# More bins than that hold nothing in any test set, and take for ever.
MOST_BINS = 100_000


def equal_width_bins(values: Values, n_bins: int) -> NDArray[np.int64]:
    """The right-closed bin (b/B, (b+1)/B] of each value in [0, 1]; 0 itself belongs to the first bin."""
    n_bins = check_whole(n_bins, "n_bins", most=MOST_BINS)
    inner_edges = np.arange(1, n_bins) / n_bins
    return np.searchsorted(inner_edges, values, side="left")


@checked
def ece(probs: ArrayLike, labels: ArrayLike, *, n_bins: int = 15, debias: bool = False) -> float:
    """Expected calibration error of the top label, with `n_bins` equal-width, right-closed bins of max p::

        ECE = sum_b (n_b / N) · |mean confidence in bin b - accuracy in bin b|

    Range 0 … 1, lower is better. Hides miscalibration that cancels inside a bin, all classes but the top one, and its
    own bias: for a perfectly calibrated predictor it is of the order sqrt(bins/N)/3, not 0. Not proper: always
    answering with the base rates is perfectly calibrated. Reference: Naeini, Cooper & Hauskrecht (2015).

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
      n_bins: number of bins.
      debias: take off what sampling noise alone explains, about 70 % of the value for a calibrated predictor (see
        `debiased_ece`).
    """
    predictions = check_predictions(probs, labels)
    weights = unit_weights(len(predictions.labels))
    calculate = debiased_ece if check_flag(debias, "debias") else binned_ece
    return float(calculate(predictions, weights, n_bins)[0])


def binned_ece(predictions: Predictions, weights: Weights, n_bins: int) -> Values:
    """ECE under each column of `weights` -> `[R]`."""
    return np.abs(_bin_gaps(predictions, weights, n_bins)).sum(axis=0) / weights.sum(axis=0)


def debiased_ece(predictions: Predictions, weights: Weights, n_bins: int) -> Values:
    """ECE without what sampling noise alone explains, under each column of `weights` -> `[R]`.

    The larger of two lower estimates, with g_b the summed gap of bin b and v_b = sum p(1-p) the variance that it has
    if the confidences are right:

    - ECE · sqrt(1 - noise / total), total = sum_b g_b²/n_b and noise = sum_b v_b/n_b. Gaps that scatter normally about
      the truth shrink by just this factor in mean size when their noise is taken away.
    - sqrt((sum_b g_b)² - sum_b v_b) / N, the part that all bins share, which is the whole of it for plain over- or
      under-confidence. (The ECE is never below the mean gap.)
    """
    confidence = predictions.confidence
    bins = equal_width_bins(confidence, n_bins)
    gaps = _bin_gaps(predictions, weights, n_bins)
    counts = group_sums(bins, np.ones(len(bins)), n_bins, weights)
    variances = group_sums(bins, confidence * (1.0 - confidence), n_bins, weights)
    total = divide(gaps**2, counts).sum(axis=0)
    noise = divide(variances, counts).sum(axis=0)
    scattered = np.abs(gaps).sum(axis=0) * np.sqrt(divide(np.maximum(total - noise, 0.0), total))
    shared = np.sqrt(np.maximum(gaps.sum(axis=0) ** 2 - variances.sum(axis=0), 0.0))
    return np.maximum(scattered, shared) / weights.sum(axis=0)


def _bin_gaps(predictions: Predictions, weights: Weights, n_bins: int) -> Values:
    """Sum over each confidence bin of (confidence - right): `[n_bins, R]`."""
    bins = equal_width_bins(predictions.confidence, n_bins)
    return group_sums(bins, predictions.confidence - predictions.right, n_bins, weights)
