"""Vector scaling with structured shrinkage: a scale and a shift for every class.

  softmax( (1 + v) · x + b ),  v, b minimise  summed NLL + prior·C·(|v|² + |b|²)

x are prepared log-probabilities (`preparation.py`). The penalty is a Gaussian prior that knows the number of classes
and fades as labels come in: SVS of Berta, Holzmüller, Jordan and Bach, *Structured matrix scaling for multi-class
calibration*, 2025, with their strength where `prior` = 1.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
from scipy.special import softmax

from nu_ensembles.calibration.preparation import preparation_of, prepared
from nu_ensembles.calibration.protocol import Calibrator, FittedCalibrator, LabelledRows, Values, check_strengths
from nu_ensembles.calibration.softmax_regression import minimum, nll_and_residuals
from nu_ensembles.metrics.temperature import PRIOR


@dataclasses.dataclass(frozen=True)
class VectorScaling(Calibrator):
    """2·C numbers after one temperature.

    Attributes:
      prior: strength of the penalty above; 1 is the published one, with a few dozen labels 4 does less harm.
      temperature_prior: that of the temperature.
    """

    prior: float = 4.0
    temperature_prior: float = PRIOR

    name: ClassVar[str] = "vector_scaling"

    def __post_init__(self) -> None:
        check_strengths(self)

    def _fitted(self, rows: LabelledRows) -> FittedVectorScaling:
        divisor, share = preparation_of(rows, self.temperature_prior)
        x, n_classes = prepared(rows.probs, divisor, share), rows.n_classes
        penalty = self.prior * n_classes

        def objective(parameters: Values) -> tuple[float, Values]:
            scale, shift = parameters[:n_classes], parameters[n_classes:]
            nll, residuals = nll_and_residuals((1.0 + scale) * x + shift, rows)
            gradient = np.concatenate([(residuals * x).sum(axis=0), residuals.sum(axis=0)])
            return nll + penalty * float(parameters @ parameters), gradient + 2.0 * penalty * parameters

        found = minimum(objective, np.zeros(2 * n_classes))
        return FittedVectorScaling(n_classes, divisor, share, 1.0 + found[:n_classes], found[n_classes:])


@dataclasses.dataclass(frozen=True, eq=False)
class FittedVectorScaling(FittedCalibrator):
    """Attributes: temperature, share: of the preparation; scale, shift: `[C]`."""

    temperature: float
    share: float
    scale: Values
    shift: Values

    name: ClassVar[str] = "vector_scaling"

    def _calibrated(self, probs: Values) -> Values:
        return softmax(self.scale * prepared(probs, self.temperature, self.share) + self.shift, axis=1)
