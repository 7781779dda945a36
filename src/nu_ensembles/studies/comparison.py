"""Ways to train, compared on the same seeds: means with Student-t intervals, and paired differences.

A seed is a split of the data with its own initialisations. Rows share their seeds, so a difference between two
rows is taken seed by seed, which removes what the split alone does to both.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.errors import InputError, unknown_name

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


@dataclasses.dataclass(frozen=True, eq=False)
class Comparison:
    """Scores of several rows on the same seeds.

    Attributes:
      rows: key -> title, in the order in which they are shown.
      seeds: `S` of them.
      scores: metric key -> float `[rows, S]`.
      reference: the row that differences are taken to.
    """

    rows: Mapping[str, str]
    seeds: tuple[int, ...]
    scores: Mapping[str, np.ndarray]
    reference: str

    def values(self, row: str, metric: str) -> np.ndarray:
        """The score of a row on every seed, `[S]`."""
        if row not in self.rows:
            raise unknown_name("row", row, self.rows)
        return self.scores[metric][list(self.rows).index(row)]

    def mean(self, row: str, metric: str) -> Interval:
        return student_interval(self.values(row, metric))

    def difference(self, row: str, metric: str, reference: str | None = None) -> Interval:
        """Mean of row - reference over seeds."""
        return student_interval(self.values(row, metric) - self.values(reference or self.reference, metric))

    def to_dict(self) -> dict[str, Any]:
        """Plain values for JSON, which knows no `nan`: those are None."""
        rows = []
        for key, title in self.rows.items():
            scores = {}
            for metric in self.scores:
                mean, difference = self.mean(key, metric), self.difference(key, metric)
                scores[metric] = {
                    "values": [none_for_nan(value) for value in self.values(key, metric).tolist()],
                    "mean": none_for_nan(mean.mean),
                    "half_width": none_for_nan(mean.half_width),
                    "difference": none_for_nan(difference.mean),
                    "difference_half_width": none_for_nan(difference.half_width),
                }
            rows.append({"key": key, "title": title, "scores": scores})
        return {"seeds": list(self.seeds), "level": LEVEL, "reference": self.reference, "rows": rows}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> Comparison:
        rows = entry["rows"]
        scores = {
            metric: np.array([[nan_for_none(v) for v in row["scores"][metric]["values"]] for row in rows])
            for metric in rows[0]["scores"]
        }
        titles = {row["key"]: row["title"] for row in rows}
        return cls(titles, tuple(entry["seeds"]), scores, entry["reference"])


def none_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def nan_for_none(value: float | None) -> float:
    return math.nan if value is None else value
