"""A temperature and a share of the uniform distribution.

  (1 - ε) p_T + ε / C,  T, ε minimise  summed NLL + prior·(log T)² - floor_prior·log(1 - ε)

A temperature cannot forgive the few rows in which a model is sure and wrong without doubting all others; a share of the
uniform distribution can. Ensemble temperature scaling of Zhang, Kailkhura and Han, *Mix-n-match*, 2020, without its
third part, and with priors.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
from scipy.special import expit, logsumexp

from nu_ensembles.calibration.protocol import Calibrator, FittedCalibrator, LabelledRows, Values, check_strengths
from nu_ensembles.calibration.softmax_regression import minimum
from nu_ensembles.metrics.temperature import LOG_T_LIMIT, PRIOR, fit_temperature, log_probability, scale_temperature

# As log-odds of ε: from about 1e-6 to one half.
LIMITS = (-14.0, 0.0)


@dataclasses.dataclass(frozen=True)
class SmoothedTemperature(Calibrator):
    """A temperature and a floor.

    Attributes:
      prior: strength of the temperature's pull to 1, see `Temperature`.
      floor_prior: pull of ε to 0, in rows that would be sure and right.
    """

    prior: float = PRIOR
    floor_prior: float = 20.0

    name: ClassVar[str] = "smoothed_temperature"

    def __post_init__(self) -> None:
        check_strengths(self)

    def _fitted(self, rows: LabelledRows) -> FittedSmoothedTemperature:
        log_probs, n_classes = log_probability(rows.probs), rows.n_classes
        own = np.arange(len(rows.labels)), rows.labels

        def objective(parameters: Values) -> tuple[float, Values]:
            log_t, odds = parameters
            inverse, share = np.exp(-log_t), expit(odds)
            scaled = log_probs * inverse
            scaled -= np.asarray(logsumexp(scaled, axis=1, keepdims=True))
            of_label = np.exp(scaled[own])
            mixed = (1.0 - share) * of_label + share / n_classes
            centred = log_probs[own] - (np.exp(scaled) * log_probs).sum(axis=1)
            by_log_t = rows.weight @ ((1.0 - share) * of_label * inverse * centred / mixed) + 2.0 * self.prior * log_t
            by_share = rows.weight @ ((of_label - 1.0 / n_classes) / mixed) + self.floor_prior / (1.0 - share)
            value = self.prior * log_t**2 - self.floor_prior * np.log1p(-share) - rows.weight @ np.log(mixed)
            return float(value), np.array([by_log_t, by_share * share * (1.0 - share)])

        # Not convex in both: begin with much and with little of each.
        alone = np.log(fit_temperature(rows.probs, rows.labels, self.prior, rows.weight))
        bounds = [(-LOG_T_LIMIT, LOG_T_LIMIT), LIMITS]
        ends = [minimum(objective, np.array(s), bounds) for s in ([alone, -12.0], [alone, -6.0], [0.0, -2.0])]
        log_t, odds = min(ends, key=lambda end: objective(end)[0])
        return FittedSmoothedTemperature(n_classes, float(np.exp(log_t)), float(expit(odds)))


@dataclasses.dataclass(frozen=True, eq=False)
class FittedSmoothedTemperature(FittedCalibrator):
    """Attributes: temperature: T; share: ε."""

    temperature: float
    share: float

    name: ClassVar[str] = "smoothed_temperature"

    def _calibrated(self, probs: Values) -> Values:
        return (1.0 - self.share) * scale_temperature(probs, self.temperature) + self.share / probs.shape[1]
