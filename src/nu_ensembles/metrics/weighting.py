"""Weighted sums, the common ground of every metric.

A bootstrap resample repeats sample n some w_n times, so each metric is written once for weights `[N, R]` (one
column per resample) and its plain value is the column of ones. The resample axis comes last throughout.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

Weights = NDArray[np.float64]
Values = NDArray[np.float64]


def unit_weights(n_samples: int) -> Weights:
    """The weights `[N, 1]` under which a metric has its plain value."""
    return np.ones((n_samples, 1))


def weighted_mean(values: Values, weights: Weights) -> Values:
    """Mean of `values` `[N]` under each column of `weights` -> `[R]`; infinite where an infinite value counts."""
    infinite = np.isinf(values)
    total = np.where(infinite, 0.0, values) @ weights
    if infinite.any():
        # 0 · inf would be nan for a resample that left the sample out.
        total = np.where(weights[infinite].any(axis=0), np.inf, total)
    return total / weights.sum(axis=0)


def group_sums(groups: NDArray[np.integer], values: Values, n_groups: int, weights: Weights) -> Values:
    """Sums weighted values by group.

    Args:
      groups: `[N]` or `[N, M]`, the group of each sample (of each of its M values).
      values: as `groups`.
      weights: `[N, R]`.

    Returns:
      `[n_groups, R]`.
    """
    n_samples = len(groups)
    per_sample = groups.size // n_samples
    starts = np.arange(0, groups.size + 1, per_sample)
    membership = csc_array((values.ravel(), groups.ravel(), starts), shape=(n_groups, n_samples))
    return membership @ weights


def class_blocks(n_classes: int) -> Iterator[slice]:
    """At most 64 runs of classes: work on one at a time needs a fraction of the memory of the predictions."""
    width = -(-n_classes // 64)
    for start in range(0, n_classes, width):
        yield slice(start, min(start + width, n_classes))


def divide(numerator: Values, denominator: Values) -> Values:
    """numerator / denominator, and 0 where the denominator is 0: an empty group adds nothing."""
    return np.divide(numerator, denominator, out=np.zeros_like(numerator), where=denominator > 0)
