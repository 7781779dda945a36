"""Beta calibration, every class against the rest.

  odds of class c:  exp(shift_c) · p_c^a_c / (1 - p_c)^b_c,  a, b ≥ 0,  then the row is normalised

a, b and shift minimise the summed binary NLL + prior·((a - 1)² + (b - 1)² + shift²), which is convex; a = b = 1 without
a shift changes nothing. Kull, Silva Filho and Flach, *Beta calibration*, 2017.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
from scipy.special import expit, log_expit, softmax

from nu_ensembles.calibration.protocol import Calibrator, FittedCalibrator, LabelledRows, Values, check_strengths
from nu_ensembles.calibration.softmax_regression import minimum
from nu_ensembles.metrics.temperature import log_probability


@dataclasses.dataclass(frozen=True)
class Beta(Calibrator):
    """Three numbers a class.

    Attributes:
      prior: strength of the pull to the identity.
    """

    prior: float = 10.0

    name: ClassVar[str] = "beta"

    def __post_init__(self) -> None:
        check_strengths(self)

    def _fitted(self, rows: LabelledRows) -> FittedBeta:
        log_p, log_rest = logs(rows.probs)
        sign = np.where(np.arange(rows.n_classes) == rows.labels[:, None], 1.0, -1.0)
        weight, shape = rows.weight[:, None], (3, rows.n_classes)
        identity = np.array([1.0, 1.0, 0.0])[:, None]

        def objective(parameters: Values) -> tuple[float, Values]:
            a, b, shift = parameters.reshape(shape)
            margin = sign * (a * log_p - b * log_rest + shift)
            slope = -weight * sign * expit(-margin)
            gradient = np.stack([(slope * log_p).sum(axis=0), -(slope * log_rest).sum(axis=0), slope.sum(axis=0)])
            away = parameters.reshape(shape) - identity
            value = self.prior * float((away**2).sum()) - float((weight * log_expit(margin)).sum())
            return value, (gradient + 2.0 * self.prior * away).ravel()

        n = rows.n_classes
        start = np.repeat(identity, n, axis=1).ravel()
        a, b, shift = minimum(objective, start, [(0.0, None)] * (2 * n) + [(None, None)] * n).reshape(shape)
        return FittedBeta(n, a, b, shift)


@dataclasses.dataclass(frozen=True, eq=False)
class FittedBeta(FittedCalibrator):
    """Attributes: a, b, shift: `[C]`."""

    a: Values
    b: Values
    shift: Values

    name: ClassVar[str] = "beta"

    def _calibrated(self, probs: Values) -> Values:
        log_p, log_rest = logs(probs)
        return softmax(log_expit(self.a * log_p - self.b * log_rest + self.shift), axis=1)


def logs(probs: Values) -> tuple[Values, Values]:
    """log p and log(1 - p), both finite; 1 - p is summed up, because near one the difference has no digits."""
    rest = probs @ (1.0 - np.eye(probs.shape[1]))
    return log_probability(probs), log_probability(rest)
