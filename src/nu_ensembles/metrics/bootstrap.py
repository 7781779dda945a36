"""Bootstrap over samples, and over runs where there are several.

A resample is a column of counts: how often each sample was drawn. Metrics take these counts as weights, so no
prediction is ever copied.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from statistics import NormalDist

import numpy as np

from nu_ensembles.metrics.weighting import Values, Weights

Statistics = Callable[[Weights], Mapping[str, Values]]

CHUNK = 32
"""Resamples worked on at a time by a thread: working memory grows with it, overhead shrinks."""


def resample_counts(rng: np.random.Generator, n_samples: int, n_resamples: int) -> Weights:
    """How often each of `n_samples` was drawn in each resample of the same size: `[N, R]`."""
    drawn = rng.integers(0, n_samples, size=(n_resamples, n_samples))
    drawn += np.arange(n_resamples)[:, None] * n_samples
    counts = np.bincount(drawn.ravel(), minlength=n_resamples * n_samples)
    return np.ascontiguousarray(counts.reshape(n_resamples, n_samples).T, dtype=np.float64)


def resampled(statistics: Statistics, n_samples: int, n_resamples: int, seed: int) -> dict[str, Values]:
    """Every statistic under `n_resamples` bootstrap resamples: name -> `[R]`.

    The draws depend on the seed alone, so different runs on the same samples see the same resamples.
    """
    sizes = [min(CHUNK, n_resamples - start) for start in range(0, n_resamples, CHUNK)]
    # A stream for each chunk: the result does not depend on which thread comes first.
    streams = np.random.default_rng(seed).spawn(len(sizes))

    def chunk(stream: np.random.Generator, size: int) -> Mapping[str, Values]:
        return statistics(resample_counts(stream, n_samples, size))

    # numpy and scipy release the lock in the loops that take the time; two threads keep the memory low.
    with ThreadPoolExecutor(max_workers=min(2, os.cpu_count() or 1)) as pool:
        parts = list(pool.map(chunk, streams, sizes))
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def interval(
    value: float, draws: Values, level: float, seed: int, *, within: tuple[float, float], centred: bool = False
) -> tuple[float, float]:
    """The basic bootstrap interval 2·value - quantiles, widened to contain `value`, cut to its range.

    The plain percentile interval would fail here: binned errors and plug-in information are biased upwards, a
    resample adds that bias a second time, and the percentiles then miss both the value and the truth.
    Reflecting the quantiles at the value takes the bias off.

    Args:
      value: the metric, mean over runs.
      draws: `[S, R]`, the metric of each run under each resample of the samples.
      level: such as 0.95.
      seed: of the resampling of runs.
      within: the smallest and the largest value that the metric can take.
      centred: for metrics that correct their own bias, but not the one that resampling adds: shift the draws so
        that their mean is `value` first.
    """
    means = _resample_runs(draws, seed)
    means = means[~np.isnan(means)]
    if np.isnan(value) or len(means) == 0:
        return float("nan"), float("nan")
    tail = (1.0 - level) / 2.0
    # order statistics instead of interpolated quantiles: between a finite value and inf lies nothing
    low, high = np.quantile(means, [tail, 1.0 - tail], method="nearest")
    if centred:
        shift = value - float(means.mean())
        low, high = low + shift, high + shift
    if np.isfinite(value) and np.isfinite(high):
        low, high = 2.0 * value - high, 2.0 * value - low
    return float(min(max(low, within[0]), value)), float(max(min(high, within[1]), value))


def wilson(share: float, n_samples: int, level: float) -> tuple[float, float]:
    """Wilson's interval of a share of so many independent samples; at 0 and 1, too, it has a width.

    Args:
      share: what was found, in [0, 1].
      n_samples: among so many.
      level: such as 0.95.
    """
    z = NormalDist().inv_cdf(0.5 + level / 2)
    squared = z * z / n_samples
    centre = (share + squared / 2) / (1 + squared)
    half = z / (1 + squared) * math.sqrt(share * (1 - share) / n_samples + squared / (4 * n_samples))
    # At 0 and 1 an end is that number but for rounding.
    return (0.0 if share == 0 else max(centre - half, 0.0)), (1.0 if share == 1 else min(centre + half, 1.0))


def _resample_runs(draws: Values, seed: int) -> Values:
    """Mean over runs `[S, R]` -> `[R]`, with the runs drawn anew for each resample if there are several."""
    n_runs, n_resamples = draws.shape
    if n_runs == 1:
        return draws[0]
    counts = resample_counts(np.random.default_rng([seed, n_runs]), n_runs, n_resamples)
    mean = draws.mean(axis=0)
    if not np.isfinite(draws).all():
        return mean
    # Drawn from S runs, the spread between runs comes out sqrt((S-1)/S) too small; few runs make that matter.
    return mean + np.sqrt(n_runs / (n_runs - 1)) * ((counts * draws).mean(axis=0) - mean)
