"""Matrix scaling with structured shrinkage: every class may take from every other one.

  softmax( x + M x + b ),  M, b minimise  summed NLL + prior·C·(|diagonal of M|² + |b|²) + prior·C·(C - 1)·|rest of M|²

x are prepared log-probabilities (`preparation.py`). The C·(C - 1) entries off the diagonal are shrunk C - 1 times as
much as the others: SMS of Berta, Holzmüller, Jordan and Bach, *Structured matrix scaling for multi-class calibration*,
2025, with their strengths where `prior` = 1.
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
class MatrixScaling(Calibrator):
    """C² + C numbers after one temperature.

    Attributes:
      prior: strength of the penalty above; 1 is the published one, with a few dozen labels 4 does less harm.
      temperature_prior: that of the temperature.
    """

    prior: float = 4.0
    temperature_prior: float = PRIOR

    name: ClassVar[str] = "matrix_scaling"

    def __post_init__(self) -> None:
        check_strengths(self)

    def _fitted(self, rows: LabelledRows) -> FittedMatrixScaling:
        divisor, share = preparation_of(rows, self.temperature_prior)
        n_classes = rows.n_classes
        # A column of ones makes the shift the last column of the matrix.
        x = prepared(rows.probs, divisor, share)
        inputs = np.column_stack([x, np.ones(len(x))])
        penalty = (
            self.prior
            * n_classes
            * np.column_stack([np.where(np.eye(n_classes, dtype=bool), 1.0, n_classes - 1.0), np.ones(n_classes)])
        )

        def objective(parameters: Values) -> tuple[float, Values]:
            correction = parameters.reshape(penalty.shape)
            nll, residuals = nll_and_residuals(x + inputs @ correction.T, rows)
            gradient = residuals.T @ inputs + 2.0 * penalty * correction
            return nll + float((penalty * correction**2).sum()), gradient.ravel()

        found = minimum(objective, np.zeros(penalty.size)).reshape(penalty.shape)
        return FittedMatrixScaling(n_classes, divisor, share, np.eye(n_classes) + found[:, :-1], found[:, -1])


@dataclasses.dataclass(frozen=True, eq=False)
class FittedMatrixScaling(FittedCalibrator):
    """Attributes: temperature, share: of the preparation; matrix: `[C, C]`; shift: `[C]`."""

    temperature: float
    share: float
    matrix: Values
    shift: Values

    name: ClassVar[str] = "matrix_scaling"

    def _calibrated(self, probs: Values) -> Values:
        return softmax(prepared(probs, self.temperature, self.share) @ self.matrix.T + self.shift, axis=1)
