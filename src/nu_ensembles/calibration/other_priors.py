"""Probabilities for a place where classes have other shares: p ∝ p · (share there / share among the labels).

It comes after another calibrator, if there is one, and is fitted on unlabelled rows (`deployment/priors.py`), so no
calibration by name chooses it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.calibration.protocol import FittedCalibrator, State, Values
from nu_ensembles.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class FittedOtherPriors(FittedCalibrator):
    """Attributes: ratio: `[C]`; before: what calibrates first, or None."""

    ratio: Values
    before: FittedCalibrator | None = None

    name: ClassVar[str] = "other_priors"

    def apply(self, probabilities: ArrayLike) -> Values:
        """Calibrated probabilities `[N, C]`.

        Args:
          probabilities: predictions `[N, C]`, or the members' `[K, N, C]`.
        """
        return super().apply(probabilities if self.before is None else self.before.apply(probabilities))

    def _calibrated(self, probs: Values) -> Values:
        return probs * self.ratio

    def state(self) -> State:
        """Its name and numbers, and the state of what comes before."""
        before = {} if self.before is None else self.before.state()
        before = {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in before.items()}
        return {**super().state(), "before": before or None}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The calibrator again.

        Args:
          state: what `state` returned, also after a round through JSON.
        """
        from nu_ensembles.calibration import restore

        try:
            ratio, n_classes = np.asarray(state["ratio"], np.float64), int(state["n_classes"])
            before = state["before"]
        except (KeyError, TypeError, ValueError):
            raise InputError("The state of the calibrator 'other_priors' is damaged: save it again.") from None
        if ratio.shape != (n_classes,) or not (np.isfinite(ratio).all() and (ratio > 0).all()):
            raise InputError("The ratios of the calibrator 'other_priors' are damaged: save it again.")
        found = cls(n_classes, ratio, None if before is None else restore(before))
        if found.before is not None and found.before.n_classes != n_classes:
            raise InputError("The parts of the calibrator 'other_priors' have different classes: save it again.")
        return found
