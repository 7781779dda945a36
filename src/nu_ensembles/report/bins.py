"""What a reliability picture draws: means in bins of confidence, and how far a bootstrap moves them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from nu_ensembles.metrics.weighting import Values, Weights, group_sums


def bin_means(bins: NDArray[np.int64], values: Values, n_bins: int, weights: Weights) -> Values:
    """Mean of `values` in each bin under each column of weights, `nan` in empty bins: `[n_bins, R]`."""
    counts = group_sums(bins, np.ones(len(bins)), n_bins, weights)
    sums = group_sums(bins, values, n_bins, weights)
    return np.divide(sums, counts, out=np.full_like(sums, np.nan), where=counts > 0)


def band(means: Values, level: float) -> tuple[Values, Values]:
    """Quantiles over resamples `[B, R]`, leaving out those that drew nothing from a bin; `nan` if all did."""
    tail = (1.0 - level) / 2.0
    drawn = ~np.isnan(means).all(axis=1)
    limits = np.full((2, len(means)), np.nan)
    limits[:, drawn] = np.nanquantile(means[drawn], [tail, 1.0 - tail], axis=1)
    return limits[0], limits[1]
