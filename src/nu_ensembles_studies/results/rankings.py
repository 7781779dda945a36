"""Several methods on the same splits: mean ranks, wins and losses, ratios of losses with intervals over data sets.

Splits of one data set are not independent of each other, so an interval is taken over data sets: first the mean over a
set's splits, then Student's t over these means.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from nu_ensembles_studies.results.intervals import interval_of


@dataclasses.dataclass(frozen=True)
class Ratio:
    """A geometric mean of ratios, and its interval; below 1 is better than the reference. nan where there are none."""

    mean: float
    low: float
    high: float

    @property
    def excludes_one(self) -> bool:
        return self.high < 1 or self.low > 1

    def text(self) -> str:
        """ "0.94 (0.91 to 0.98)"."""
        if math.isnan(self.mean):
            return "–"
        within = "" if math.isnan(self.low) else f" ({self.low:.3f} to {self.high:.3f})"
        return f"{self.mean:.3f}{within}"


def mean_ranks(losses: np.ndarray) -> np.ndarray:
    """Mean rank `[M]` of each method, 1 the best; ties share their ranks.

    Args:
      losses: `[N, M]`, on each split; splits that lack a method are left out.
    """
    from scipy.stats import rankdata  # half a second to import

    whole = losses[~np.isnan(losses).any(axis=1)]
    return rankdata(whole, axis=1).mean(axis=0) if len(whole) else np.full(losses.shape[1], np.nan)


def ratio(losses: np.ndarray, reference: np.ndarray, groups: np.ndarray) -> Ratio:
    """Of losses `[N]` to those of a reference on the same splits.

    Args:
      groups: `[N]`, the data set of each split.
    """
    logs = np.log(losses) - np.log(reference)
    present = ~np.isnan(logs)
    means = np.array([logs[present & (groups == group)].mean() for group in np.unique(groups[present])])
    interval = interval_of(means)
    mean, around = interval.mean, interval.half_width
    return Ratio(*(float(np.exp(each)) for each in (mean, mean - around, mean + around)))


def wins_and_losses(losses: np.ndarray, reference: np.ndarray) -> tuple[int, int]:
    """On how many splits a loss is lower than the reference's, and on how many it is higher."""
    return int((losses < reference).sum()), int((losses > reference).sum())
