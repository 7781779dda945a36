"""Isotonic regression, every class against the rest: the best rising step function of p_c, then the row is normalised.

Every row is joined by `prior / n` of a row whose label is p_c itself: with few labels the steps stay near the identity,
and none reaches 0 or 1 by the labels alone. Zadrozny and Elkan, *Transforming classifier scores into accurate
multiclass probability estimates*, 2002.
"""

from __future__ import annotations

import dataclasses
import itertools
from typing import ClassVar

import numpy as np
from scipy.optimize import isotonic_regression

from nu_ensembles.calibration.protocol import Calibrator, FittedCalibrator, LabelledRows, Values, check_strengths


@dataclasses.dataclass(frozen=True)
class Isotonic(Calibrator):
    """A rising function for each class.

    Attributes:
      prior: how many rows' weight the identity has.
    """

    prior: float = 30.0

    name: ClassVar[str] = "isotonic"

    def __post_init__(self) -> None:
        check_strengths(self)

    def _fitted(self, rows: LabelledRows) -> FittedIsotonic:
        points, values = [], []
        of_identity = self.prior / len(rows.labels)
        for number in range(rows.n_classes):
            # Equal probabilities are one point: what they become must be equal, too.
            point, position = np.unique(rows.probs[:, number], return_inverse=True)
            weight = np.bincount(position, rows.weight)
            right = np.bincount(position, rows.weight * (rows.labels == number))
            target = (right / weight + of_identity * point) / (1.0 + of_identity)
            points.append(point)
            values.append(isotonic_regression(target, weights=weight).x)
        starts = np.cumsum([0, *(len(point) for point in points)])
        return FittedIsotonic(rows.n_classes, np.concatenate(points), np.concatenate(values), starts.astype(np.float64))


@dataclasses.dataclass(frozen=True, eq=False)
class FittedIsotonic(FittedCalibrator):
    """Attributes: points, values: of all classes, one after the other; starts: `[C + 1]`, where each begins."""

    points: Values
    values: Values
    starts: Values

    name: ClassVar[str] = "isotonic"

    def _calibrated(self, probs: Values) -> Values:
        starts = self.starts.astype(int)
        parts = [slice(start, end) for start, end in itertools.pairwise(starts)]
        columns = [
            np.interp(column, self.points[part], self.values[part]) for column, part in zip(probs.T, parts, strict=True)
        ]
        calibrated = np.stack(columns, axis=1)
        # A row that every class gave up keeps what it had.
        return np.where(calibrated.sum(axis=1, keepdims=True) > 0, calibrated, probs)
