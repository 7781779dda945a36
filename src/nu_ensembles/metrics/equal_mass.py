"""Thresholded adaptive calibration error, TACE (Section 5.1, Table 1): bins that hold equally many samples.

Equal-mass bins move with every bootstrap resample. Sorting is done once; a resample only needs the running
sums of its counts at the bin edges, which are found block by block of the sorted order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.checks import check_positive, check_whole, checked
from nu_ensembles.errors import unknown_name
from nu_ensembles.metrics.calibration import MOST_BINS
from nu_ensembles.metrics.inputs import Predictions, check_predictions
from nu_ensembles.metrics.running_sums import BLOCK, RunningSums, SortedClasses
from nu_ensembles.metrics.weighting import Values, Weights, class_blocks, unit_weights

TACE_DEFAULTS = {"paper": (15, 1e-3), "nixon": (30, 0.01)}
"""Number of bins and threshold of each variant."""


@checked
def tace(
    probs: ArrayLike,
    labels: ArrayLike,
    *,
    variant: str = "paper",
    n_bins: int | None = None,
    threshold: float | None = None,
) -> float:
    """Thresholded adaptive calibration error: equal-mass bins for every class, tiny probabilities left out.

    `variant="paper"` (15 bins, threshold 1e-3): the n_c values p(c) above the threshold, sorted (stable), are
    cut into bins of n_c // 15, the last takes the remainder, and::

        TACE = 1/(N·C) · sum_c sum_b n_cb · |mean p(c) - frequency of c in the bin|

    `variant="nixon"` (30 bins, threshold 0.01) divides by n_c instead of N and averages over the classes, so
    it is larger and does not shrink with the number of classes. The two are different quantities.

    Range 0 … 1, lower is better. Hides its scale: with the paper's normaliser 100 classes give values ten
    times smaller than 10 classes at the same top-label error, so compare within one data set only. Not
    proper. Reference: Nixon, Dusenberry, Zhang, Jerfel & Tran (2019).

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
      variant: "paper" or "nixon".
      n_bins: bins per class; None takes the variant's.
      threshold: probabilities up to here are left out; None takes the variant's.
    """
    if not isinstance(variant, str) or variant not in TACE_DEFAULTS:
        raise unknown_name("variant", variant, TACE_DEFAULTS)
    n_bins = TACE_DEFAULTS[variant][0] if n_bins is None else n_bins
    threshold = TACE_DEFAULTS[variant][1] if threshold is None else threshold
    n_bins = check_whole(n_bins, "n_bins", most=MOST_BINS)
    threshold = check_positive(threshold, "threshold", zero_allowed=True)
    predictions = check_predictions(probs, labels)
    orders = sorted_classes(predictions, threshold)
    return float(equal_mass_error(predictions, unit_weights(len(predictions.labels)), orders, n_bins, variant)[0])


def sorted_classes(predictions: Predictions, threshold: float) -> Iterator[SortedClasses]:
    """For each run of classes, the samples with p(c) > threshold in stable ascending order of p(c)."""
    for block in class_blocks(predictions.probs.shape[1]):
        samples, values, gaps, starts, first_blocks = [], [], [], [np.zeros(1, np.int64)], [0]
        for c in range(block.start, block.stop):
            kept = np.flatnonzero(predictions.probs[:, c] > threshold).astype(np.int32)
            if len(kept) == 0:
                continue
            order = kept[np.argsort(predictions.probs[kept, c], kind="stable")]
            samples.append(order)
            values.append(predictions.probs[order, c])
            gaps.append(values[-1] - (predictions.labels[order] == c))
            ends = np.append(np.arange(BLOCK, len(kept), BLOCK), len(kept))
            starts.append(starts[-1][-1] + ends)
            first_blocks.append(first_blocks[-1] + len(ends))
        if samples:
            yield SortedClasses(
                sample=np.concatenate(samples),
                value=np.concatenate(values),
                gap=np.concatenate(gaps),
                block_start=np.concatenate(starts),
                class_block=np.array(first_blocks),
            )


def equal_mass_error(
    predictions: Predictions,
    weights: Weights,
    orders: Iterable[SortedClasses],
    n_bins: int,
    variant: str,
) -> Values:
    """TACE under each column of integer `weights`, given `sorted_classes` -> `[R]`."""
    n_samples, n_classes = predictions.probs.shape
    total = np.zeros(weights.shape[1])
    for order in orders:
        sums = RunningSums(order, weights)
        if variant == "paper":
            total += sums.ranked_bins(n_bins).sum(axis=0) / n_samples
        else:
            total += sums.valued_bins(n_bins).sum(axis=0)
    return total / n_classes
