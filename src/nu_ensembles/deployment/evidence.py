"""What a choice under shift may look at: losses out of fold, and predictions on the unlabelled rows.

Nothing here knows a label of the deployment.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from numpy.typing import NDArray

from nu_ensembles.deployment.opinions import Opinions

Values = NDArray[np.float64]
# Below it a probability costs no more: float32 underflows soon after.
SMALLEST = 1e-30


@dataclasses.dataclass(frozen=True, eq=False)
class ShiftEvidence:
    """What every candidate did, the standard ensemble first.

    Attributes:
      betas: `[P]`, ascending from 0; steps: int `[S]`.
      nll: `[P, S]`, out of fold.
      on_unlabeled: `[P, M, C]`, what members that were trained on all labels predict on unlabelled rows, on average, at
        the step at which the standard ensemble's `nll` is lowest.
      of_standard: what speaks of the standard ensemble's accuracy there.
    """

    betas: np.ndarray
    steps: np.ndarray
    nll: Values
    on_unlabeled: Values
    of_standard: Opinions

    @property
    def standard_stop(self) -> int:
        """Where the standard ensemble stops."""
        return int(np.nanargmin(self.nll[0]))

    def confidence(self, candidate: int) -> float:
        """On the unlabelled rows, mean."""
        return float(self.on_unlabeled[candidate].max(axis=-1).mean())

    def source_change(self, candidate: int) -> float:
        """The relative change of the out-of-fold NLL against the standard ensemble, each at its own best step."""
        return float(np.nanmin(self.nll[candidate]) / max(float(np.nanmin(self.nll[0])), SMALLEST)) - 1.0

    def source_gain(self, candidate: int) -> float:
        """By how much the out-of-fold NLL is lower, relatively; 0 where it is higher."""
        return max(0.0, -self.source_change(candidate))

    def flipped(self, candidate: int) -> float:
        """The share of unlabelled rows for which a candidate predicts another class than the standard ensemble.

        A prediction that labels stand behind does not move when a little random labelling pulls at it. The share is the
        disagreement on the deployment of two hypotheses that agree on the source, which bounds what the shift may cost
        (Rosenfeld and Garg, *(Almost) provable error bounds under distribution shift via disagreement discrepancy*,
        2023).
        """
        return float((self.on_unlabeled[candidate].argmax(axis=-1) != self.on_unlabeled[0].argmax(axis=-1)).mean())

    def price(self, candidate: int) -> float:
        """By how much a candidate's NLL there would be higher, relatively, if the standard ensemble were calibrated."""
        standard = self.on_unlabeled[0]
        entropy = -(standard * np.log(np.maximum(standard, SMALLEST))).sum(axis=-1).mean()
        cross = -(standard * np.log(np.maximum(self.on_unlabeled[candidate], SMALLEST))).sum(axis=-1).mean()
        return float(cross / max(float(entropy), SMALLEST)) - 1.0
