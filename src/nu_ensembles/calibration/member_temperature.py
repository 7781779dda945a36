"""Two temperatures for an ensemble: one for its members before they are averaged, one for their mean.

  p ∝ ( mean over members of softmax(log p_k / S) )^(1/T),  S, T minimise  summed NLL + prior·((log S)² + (log T)²)

Calibrated members make an under-confident mean where they disagree (Wu and Gales, *Should ensemble members be
calibrated?*, 2021), and calibrating the mean alone cannot change how much disagreement counts (pool, then calibrate:
Rahaman and Thiery, *Uncertainty quantification and deep ensembles*, 2021). So both are fitted for what comes out.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
from scipy.special import logsumexp, softmax

from nu_ensembles.calibration.protocol import Calibrator, FittedCalibrator, LabelledRows, Values, check_strengths
from nu_ensembles.calibration.softmax_regression import minimum, nll_and_residuals
from nu_ensembles.metrics.temperature import LOG_T_LIMIT, PRIOR, fit_temperature, log_probability


@dataclasses.dataclass(frozen=True)
class MemberTemperature(Calibrator):
    """A temperature before averaging and one after.

    Attributes:
      prior: strength of the pull of both to 1, see `Temperature`.
    """

    prior: float = PRIOR

    name: ClassVar[str] = "member_temperature"
    takes_members: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_strengths(self)

    def _fitted(self, rows: LabelledRows) -> FittedMemberTemperature:
        log_probs = log_probability(rows.members)

        def objective(logs: Values) -> tuple[float, Values]:
            inverse, outer = np.exp(-logs)
            log_pool, slope = log_mean(log_probs, inverse)
            nll, residuals = nll_and_residuals(outer * log_pool, rows)
            gradient = -np.array([inverse * outer * (residuals * slope).sum(), outer * (residuals * log_pool).sum()])
            return nll + self.prior * float(logs @ logs), gradient + 2.0 * self.prior * logs

        # Not convex in both: begin where each is best alone, and never end above the temperature of the mean.
        alone = np.log(fit_temperature(rows.probs, rows.labels, self.prior, rows.weight))
        bounds = [(-LOG_T_LIMIT, LOG_T_LIMIT)] * 2
        ends = [minimum(objective, np.array(start), bounds) for start in ([0.0, alone], [alone, 0.0])]
        inner, outer = np.exp(min(ends, key=lambda end: objective(end)[0]))
        return FittedMemberTemperature(rows.n_classes, float(inner), float(outer))


@dataclasses.dataclass(frozen=True, eq=False)
class FittedMemberTemperature(FittedCalibrator):
    """Attributes: inner, outer: S and T."""

    inner: float
    outer: float

    name: ClassVar[str] = "member_temperature"
    takes_members: ClassVar[bool] = True

    def _calibrated(self, probs: Values) -> Values:
        log_pool, _ = log_mean(log_probability(probs), 1.0 / self.inner)
        return softmax(log_pool / self.outer, axis=1)


def log_mean(log_probs: Values, inverse: float) -> tuple[Values, Values]:
    """log of the members' mean after scaling by an inverse temperature, and its derivative by that: `[N, C]` each."""
    scaled = inverse * log_probs
    scaled -= np.asarray(logsumexp(scaled, axis=2, keepdims=True))
    log_pool = np.asarray(logsumexp(scaled, axis=0))
    expected = (np.exp(scaled) * log_probs).sum(axis=2, keepdims=True)
    share = np.exp(scaled - log_pool)
    return log_pool - np.log(len(log_probs)), (share * (log_probs - expected)).sum(axis=0)
