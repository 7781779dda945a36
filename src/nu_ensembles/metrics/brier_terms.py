"""Reliability, resolution and uncertainty of the Brier score (Table 1's "Brier Rel.").

The published decomposition groups samples by predicted class; it is the default, because the paper's figures
are made with it. Its terms don't add up to the score, and its reliability is about .08 for a perfectly
calibrated ten-class predictor. `method="exact"` bins every class's probability instead; its terms add up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.checks import checked
from nu_ensembles.errors import unknown_name
from nu_ensembles.metrics.calibration import equal_width_bins
from nu_ensembles.metrics.inputs import Ints, Predictions, check_predictions
from nu_ensembles.metrics.scores import squared_distance, squared_norm
from nu_ensembles.metrics.weighting import (
    Values,
    Weights,
    class_blocks,
    divide,
    group_sums,
    unit_weights,
    weighted_mean,
)


class BrierDecomposition(NamedTuple):
    """Terms of the Brier score.

    Attributes:
      reliability: how far stated and observed frequencies are apart; smaller is better.
      resolution: how far observed frequencies differ between predictions; larger is better.
      uncertainty: of the labels themselves, whatever the predictions.
    """

    reliability: float
    resolution: float
    uncertainty: float


@checked
def brier_decomposition(
    probs: ArrayLike, labels: ArrayLike, *, method: str = "argmax", n_bins: int = 15
) -> BrierDecomposition:
    """Splits the Brier score into reliability, resolution and uncertainty.

    `method="argmax"` (the paper's): with the samples grouped by predicted class k, label frequencies ȳ_k in a
    group and ȳ overall::

        reliability = mean |p - ȳ_k|²,  resolution = sum_k (N_k/N) |ȳ_k - ȳ|²,  uncertainty = 1 - sum_c ȳ_c²

    Reliability then contains the spread of p inside a group, so it is far from 0 for calibrated predictors, and
    reliability - resolution + uncertainty is not the Brier score.

    `method="exact"`: with every class's probability p_c in equal-width bins b, of N_cb samples each::

        reliability = sum_c sum_b (N_cb/N) (mean p_c - mean 1[y=c])², less what sampling noise adds, at least 0
        resolution = reliability + uncertainty - Brier, which takes in variance and covariance within bins

    The terms add up, and a calibrated predictor has a reliability near 0.

    All terms lie in 0 … 2, but for the resolution of the exact method, which spread within bins makes negative on few
    samples. Hides, as every binned estimate, what cancels within a bin or group.
    References: Murphy (1973); Stephenson, Coelho & Jolliffe (2008) for the terms within bins; Ferro & Fricker
    (2012) for the noise.

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
      method: "argmax" or "exact".
      n_bins: bins per class of the exact method.
    """
    if not isinstance(method, str) or method not in ("argmax", "exact"):
        raise unknown_name("method", method, ("argmax", "exact"))
    predictions = check_predictions(probs, labels)
    weights = unit_weights(len(predictions.labels))
    if method == "argmax":
        terms = argmax_terms(predictions, weights)
    else:
        terms = exact_terms(predictions, weights, class_gaps(predictions, weights, n_bins)[1])
    return BrierDecomposition(*(float(term[0]) for term in terms))


def argmax_terms(predictions: Predictions, weights: Weights) -> tuple[Values, Values, Values]:
    """Reliability, resolution, uncertainty of the argmax partition, each `[R]`."""
    probs, labels, predicted = predictions.probs, predictions.labels, predictions.predicted
    n_samples, n_classes = probs.shape
    # Only the (predicted, label) cells that occur matter: at most N of them, however many classes there are.
    cells, cell = np.unique(predicted * n_classes + labels, return_inverse=True)
    group, observed = np.divmod(cells, n_classes)
    ones = np.ones(n_samples)
    total = weights.sum(axis=0)
    in_cell = group_sums(cell, ones, len(cells), weights)
    in_group = group_sums(predicted, ones, n_classes, weights)
    frequency = divide(in_cell, in_group[group])
    overall = (label_frequency(labels, n_classes, weights) ** 2).sum(axis=0)
    # |ȳ_k - ȳ|² weighted over k = sum_k w_k |ȳ_k|² - |ȳ|², since the ȳ_k average to ȳ.
    within = (in_cell * frequency).sum(axis=0) / total
    # mean |p - ȳ_k|² = mean |p|² - 2 mean p·ȳ_k + mean |ȳ_k|²
    cross = np.zeros(weights.shape[1])
    for block in class_blocks(n_classes):
        columns = np.arange(block.stop - block.start)
        groups = predicted[:, None] * len(columns) + columns
        summed = group_sums(groups, probs[:, block], n_classes * len(columns), weights)
        here = (observed >= block.start) & (observed < block.stop)
        cross += (summed[group[here] * len(columns) + observed[here] - block.start] * frequency[here]).sum(axis=0)
    reliability = weighted_mean(squared_norm(probs), weights) - 2.0 * cross / total + within
    return np.maximum(reliability, 0.0), np.maximum(within - overall, 0.0), 1.0 - overall


def label_frequency(labels: Ints, n_classes: int, weights: Weights) -> Values:
    """Share of each class among the labels: `[C, R]`."""
    return group_sums(labels, np.ones(len(labels)), n_classes, weights) / weights.sum(axis=0)


def class_gaps(predictions: Predictions, weights: Weights, n_bins: int) -> tuple[Values, Values]:
    """Class-wise binned gaps g_cb = sum over the bin of (p_c - 1[y=c]).

    Returns:
      sum_cb |g_cb| / N, which is C times the class-wise ECE, and the reliability of the exact decomposition,
      each `[R]`.
    """
    absolute = np.zeros(weights.shape[1])
    squared = np.zeros(weights.shape[1])
    for block in class_blocks(predictions.probs.shape[1]):
        probs = predictions.probs[:, block]
        columns = np.arange(probs.shape[1], dtype=np.int32)
        bins = equal_width_bins(probs, n_bins).astype(np.int32)
        bins += columns * n_bins
        n_groups = len(columns) * n_bins
        outcome = predictions.labels[:, None] == columns + block.start
        gaps = group_sums(bins, probs - outcome, n_groups, weights)
        counts = group_sums(bins, np.ones(probs.shape), n_groups, weights)
        # If p is right, g² has the expectation sum p (1 - p): noise that no predictor can be blamed for.
        noise = group_sums(bins, probs * (1.0 - probs), n_groups, weights)
        absolute += np.abs(gaps).sum(axis=0)
        squared += divide(gaps**2 - noise, counts).sum(axis=0)
    total = weights.sum(axis=0)
    return absolute / total, np.maximum(squared / total, 0.0)


def exact_terms(predictions: Predictions, weights: Weights, reliability: Values) -> tuple[Values, Values, Values]:
    """Reliability, resolution, uncertainty that add up to the Brier score, each `[R]`."""
    frequency = label_frequency(predictions.labels, predictions.probs.shape[1], weights)
    uncertainty = 1.0 - (frequency**2).sum(axis=0)
    score = weighted_mean(squared_distance(predictions), weights)
    return reliability, reliability + uncertainty - score, uncertainty
