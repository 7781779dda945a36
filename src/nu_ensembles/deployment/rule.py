"""The rule that chooses beta where the unlabelled rows come from elsewhere.

A candidate is taken, the larger of two before the smaller, if
  - its out-of-fold NLL is no higher than the standard ensemble's (the larger one's: lower by a percent), and
  - what it would cost if the standard ensemble were calibrated there (its price) is at most .02 + 3 times the share of
    predictions there that it turns over.
So little evidence buys little softness. The numbers were set on development shifts; docs/deployment.md says what came
of them on others, and what else was tried. Beta is in units of the labelled loss (`nu.methods.Nu`, weighting): a
constant one takes over once the labels are fitted, and what is harmless at 100 steps then ruins the ensemble at 1,000.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from nu_ensembles.deployment.evidence import ShiftEvidence

# Candidates beside 0, and the most by which their out-of-fold NLL may change.
LADDER = {0.1: 0.0, 0.3: -0.01}
FREE_PRICE, PRICE_A_FLIP = 0.02, 3.0
# Whose turned-over predictions are counted: the pull must be strong enough to turn some over.
PROBE = 0.3


@dataclasses.dataclass(frozen=True)
class Decision:
    """What was chosen, and on which evidence.

    Attributes:
      candidate, stop: positions in the evidence's betas and steps.
      beta, n_steps: what they stand for.
      flipped: the share of predictions on the unlabelled rows that the probe turns over.
      confidence: of the standard ensemble on the unlabelled rows, mean.
      source_change: of the out-of-fold NLL against the standard ensemble.
      refused: why the next larger candidate was not taken: "source", "price", or "" if there is none.
    """

    candidate: int
    stop: int
    beta: float
    n_steps: int
    flipped: float
    confidence: float
    source_change: float
    refused: str

    def reason(self) -> str:
        """The evidence in words; begins in the middle of a sentence."""
        share = f"{100 * self.flipped:.0f} % of the predictions there change class under a little random labelling"
        if self.beta == 0:
            costs = (
                "it would raise the NLL out of fold" if self.refused == "source" else "it could cost more than it saves"
            )
            return f"{share}, and {costs}, so this is an early-stopped standard ensemble"
        source = f"{100 * abs(self.source_change):.1f} % {'lower' if self.source_change < 0 else 'higher'}"
        return f"{share}, and the NLL out of fold is {source} than an early-stopped standard ensemble's"


def decide(evidence: ShiftEvidence) -> Decision:
    """The rule.

    Args:
      evidence: of 0 and the candidates of `LADDER`.
    """
    probe = int(np.argmin(np.abs(evidence.betas - PROBE)))
    flipped, chosen, refused = evidence.flipped(probe), 0, ""
    for candidate, beta in enumerate(evidence.betas.tolist()):
        if candidate == 0:
            continue
        if evidence.source_change(candidate) > LADDER[beta]:
            refused = "source"
        elif evidence.price(candidate) > FREE_PRICE + PRICE_A_FLIP * flipped:
            refused = "price"
        else:
            chosen, refused = candidate, ""
    stop = int(np.nanargmin(evidence.nll[chosen]))
    return Decision(
        chosen,
        stop,
        float(evidence.betas[chosen]),
        int(evidence.steps[stop]),
        flipped,
        float(evidence.on_unlabeled[0].max(axis=-1).mean()),
        evidence.source_change(chosen),
        refused,
    )
