"""Means over seeds with Student-t intervals, and the metrics that are shown with them."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.errors import InputError

LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class Interval:
    """A mean over seeds and half the width of its interval, `nan` where one seed gives none."""

    mean: float
    half_width: float

    @property
    def excludes_zero(self) -> bool:
        return abs(self.mean) > self.half_width

    def text(self, digits: int = 3, scale: float = 1.0, signed: bool = False) -> str:
        """ "0.512 ± 0.020"; a dash where there is no mean, the mean alone where there is no width."""
        if math.isnan(self.mean):
            return "–"
        if math.isinf(self.mean):
            return "∞" if self.mean > 0 else "−∞"
        # Rounded first: a mean of -0.0004 is shown as 0.000, not as -0.000.
        mean = round(self.mean * scale, digits) + 0.0
        shown = f"{mean:{'+' if signed and mean else ''}.{digits}f}".replace("-", "−")
        return shown if math.isnan(self.half_width) else f"{shown} ± {self.half_width * scale:.{digits}f}"


NOTHING = Interval(math.nan, math.nan)


def interval_of(values: np.ndarray) -> Interval:
    """Mean and interval of the values `[S]` that are there, not nan."""
    present = values[~np.isnan(values)]
    return student_interval(present) if len(present) else NOTHING


def student_interval(values: ArrayLike, level: float = LEVEL) -> Interval:
    """Mean of `[S]` values and half the width of its Student-t interval, t·s/√S."""
    # Of scipy.special, because scipy.stats takes half a second to import.
    from scipy.special import stdtrit

    values = np.asarray(values, np.float64)
    n = len(values)
    if n == 0:
        raise InputError("There are no values to average: run at least one seed.")
    if n == 1 or not np.isfinite(values).all():
        return Interval(float(values.mean()), math.nan)
    quantile = float(stdtrit(n - 1, (1 + level) / 2))
    return Interval(float(values.mean()), quantile * float(values.std(ddof=1)) / math.sqrt(n))


@dataclasses.dataclass(frozen=True)
class Metric:
    """How a metric is shown.

    Attributes:
      key: its name in `metrics.evaluate`.
      title: its name in a table.
      meaning: one sentence for readers.
      digits: decimals shown, after multiplication with `scale`.
    """

    key: str
    title: str
    meaning: str
    digits: int = 3
    scale: float = 1.0

    def text(self, value: Interval, signed: bool = False) -> str:
        return value.text(self.digits, self.scale, signed)


METRICS = (
    Metric("accuracy", "Accuracy %", "Share of correct predictions; higher is better.", 1, 100.0),
    Metric("nll", "NLL", "Mean of −log p of the true class under the mean probability; lower is better."),
    Metric("ece", "ECE", "Expected calibration error, 15 equal-width bins of the top label; lower is better."),
    Metric("tace", "TACE", "Thresholded adaptive calibration error, 15 equal-mass bins per class; lower is better."),
    Metric(
        "brier_reliability", "Brier rel.", "Reliability part of the Brier score, by predicted class; lower is better."
    ),
    Metric(
        "mutual_information", "MI, bits", "Pairwise mutual information of the members; lower means more diverse.", 2
    ),
)

# By their names in `metrics.evaluate`.
BY_KEY = {metric.key: metric for metric in METRICS}
HIGHER_IS_BETTER = ("accuracy",)
