"""No calibration: the mean of the members as it is, what every calibrator is compared with."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from nu_ensembles.calibration.protocol import Calibrator, FittedCalibrator, LabelledRows, Values


@dataclasses.dataclass(frozen=True)
class Identity(Calibrator):
    """Learns nothing."""

    name: ClassVar[str] = "none"

    def _fitted(self, rows: LabelledRows) -> FittedIdentity:
        return FittedIdentity(rows.n_classes)


@dataclasses.dataclass(frozen=True, eq=False)
class FittedIdentity(FittedCalibrator):
    """Changes nothing."""

    name: ClassVar[str] = "none"

    def _calibrated(self, probs: Values) -> Values:
        return probs
