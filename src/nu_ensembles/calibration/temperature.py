"""Temperature scaling: one number that softens or sharpens the mean probability.

  p_T ∝ p^(1/T),  T minimises  summed NLL + prior·(log T)²

Pooling comes first, calibration afterwards: Rahaman and Thiery, *Uncertainty quantification and deep ensembles*, 2021.
Guo, Pleiss, Sun and Weinberger, *On calibration of modern neural networks*, 2017.
"""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from nu_ensembles.calibration.protocol import Calibrator, FittedCalibrator, LabelledRows, Values, check_strengths
from nu_ensembles.metrics.temperature import PRIOR, fit_temperature, scale_temperature


@dataclasses.dataclass(frozen=True)
class Temperature(Calibrator):
    """One temperature.

    Attributes:
      prior: strength of the pull to T = 1, in nats at T = e or 1/e.
    """

    prior: float = PRIOR

    name: ClassVar[str] = "temperature"

    def __post_init__(self) -> None:
        check_strengths(self)

    def _fitted(self, rows: LabelledRows) -> FittedTemperature:
        return FittedTemperature(rows.n_classes, fit_temperature(rows.probs, rows.labels, self.prior, rows.weight))


@dataclasses.dataclass(frozen=True, eq=False)
class FittedTemperature(FittedCalibrator):
    """Attributes: temperature: above 1 softens."""

    temperature: float

    name: ClassVar[str] = "temperature"

    def _calibrated(self, probs: Values) -> Values:
        return scale_temperature(probs, self.temperature)
