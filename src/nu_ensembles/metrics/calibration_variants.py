"""Calibration errors beside the paper's: every class instead of the top one, and per predicted class.

ECE alone can be 0 while each class is off, because over-confidence in one class pays for another.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.checks import check_whole, checked
from nu_ensembles.metrics.brier_terms import class_gaps
from nu_ensembles.metrics.calibration import MOST_BINS, equal_width_bins
from nu_ensembles.metrics.inputs import Predictions, check_predictions
from nu_ensembles.metrics.weighting import Values, Weights, group_sums, unit_weights


@checked
def classwise_ece(probs: ArrayLike, labels: ArrayLike, *, n_bins: int = 15) -> float:
    """Class-wise (static) calibration error: the ECE of p_c against 1[y=c], mean over the classes c::

        SCE = 1/C sum_c sum_b (n_cb/N) · |mean p_c - frequency of c in the bin|

    Range 0 … 1, lower is better. Hides its scale: most p_c are near 0 when there are many classes, so values
    shrink with C. Reference: Nixon et al. (2019).

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
      n_bins: equal-width bins per class.
    """
    predictions = check_predictions(probs, labels)
    absolute, _ = class_gaps(predictions, unit_weights(len(predictions.labels)), n_bins)
    return float(absolute[0]) / predictions.probs.shape[1]


@checked
def top_label_ece(probs: ArrayLike, labels: ArrayLike, *, n_bins: int = 15) -> float:
    """ECE with bins kept apart by predicted class k, so that classes cannot cancel::

        sum_k sum_b (n_kb/N) · |mean confidence - accuracy in bin b of the samples predicted as k|

    Range 0 … 1, lower is better, never below the ECE. Hides its bias, which is larger than the ECE's: up to C
    times as many bins share the same samples. Reference: Gupta & Ramdas (2022), Top-label calibration.

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
      n_bins: equal-width bins per predicted class.
    """
    predictions = check_predictions(probs, labels)
    return float(binned_top_label_ece(predictions, unit_weights(len(predictions.labels)), n_bins)[0])


def binned_top_label_ece(predictions: Predictions, weights: Weights, n_bins: int) -> Values:
    """Top-label ECE under each column of `weights` -> `[R]`."""
    n_bins = check_whole(n_bins, "n_bins", most=MOST_BINS)
    cell = predictions.predicted * n_bins + equal_width_bins(predictions.confidence, n_bins)
    n_cells = predictions.probs.shape[1] * n_bins
    gaps = group_sums(cell, predictions.confidence - predictions.right, n_cells, weights)
    return np.abs(gaps).sum(axis=0) / weights.sum(axis=0)
