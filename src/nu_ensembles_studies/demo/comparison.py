"""Ways to train, compared on the same seeds: means with Student-t intervals, and paired differences.

A seed is a split of the data with its own initialisations. Rows share their seeds, so a difference between two
rows is taken seed by seed, which removes what the split alone does to both.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from nu_ensembles.errors import unknown_name
from nu_ensembles_studies.results.intervals import LEVEL, Interval, student_interval
from nu_ensembles_studies.results.json_numbers import nan_for_none, none_for_nan


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
