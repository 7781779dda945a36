"""The rule that chooses beta where the unlabelled rows come from elsewhere.

0.2 is tried first; then 0.6 if it passes, and 0.03 if it does not. The largest that passes is taken. A candidate passes
  - if its out-of-fold NLL is lower than the standard ensemble's by two in a thousand (the smallest one's: no higher;
    the largest one's: no higher than the middle one's, either),
  - if what it would cost were the standard ensemble calibrated there (its price) is at most .03 + 2 times the share of
    predictions there that it turns over, and
  - if the standard ensemble is not all but certain there.
So little evidence buys little softness. The numbers were set on development shifts; docs/deployment.md says what came
of them on others, and what else was tried. Beta is in units of the labelled loss (`nu.methods.Nu`, weighting): a
constant one takes over once the labels are fitted, and what is harmless at 100 steps then ruins the ensemble at 1,000.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from nu_ensembles.deployment.evidence import ShiftEvidence

FIRST, LARGER, SMALLER = 0.2, 0.6, 0.03
# Candidates beside 0, and the most by which their out-of-fold NLL may change.
LIMITS = {SMALLER: 0.0, FIRST: -0.002, LARGER: -0.002}
FREE_PRICE, PRICE_A_FLIP = 0.03, 2.0
# Mean confidence above which nothing is changed: where it is right, softness costs many times the loss.
CERTAIN = 0.95


@dataclasses.dataclass(frozen=True)
class Decision:
    """What was chosen, and on which evidence.

    Attributes:
      candidate, stop: positions in the evidence's betas and steps.
      beta, n_steps: what they stand for; a training on more rows than a fold has takes more steps.
      flipped: the share of predictions on the unlabelled rows that `FIRST` turns over.
      confidence: of what was chosen on the unlabelled rows, mean.
      source_change: of the out-of-fold NLL against the standard ensemble.
      refused: why nothing was taken: "source", "price", "certain", or "" if something was.
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
            costs = {
                "source": "it would not lower the NLL out of fold",
                "price": "it could cost more than it saves",
                "certain": "the ensemble is all but certain there",
            }
            return f"{share}, and {costs[self.refused]}, so this is an early-stopped standard ensemble"
        source = f"{100 * abs(self.source_change):.1f} % {'lower' if self.source_change < 0 else 'higher'}"
        return f"{share}, and the NLL out of fold is {source} than an early-stopped standard ensemble's"


def next_beta(evidence: ShiftEvidence) -> float | None:
    """What to train next; None if what there is decides."""
    tried = evidence.betas.tolist()
    if FIRST not in tried:
        return FIRST
    refused = _refused(evidence, tried.index(FIRST))
    beta = SMALLER if refused else LARGER
    return None if beta in tried or refused == "certain" else beta


def decide(evidence: ShiftEvidence) -> Decision:
    """The rule.

    Args:
      evidence: of 0 and those of `LIMITS` that were trained, ascending.
    """
    tried = evidence.betas.tolist()
    first = tried.index(FIRST)
    passed = [candidate for candidate in range(1, len(tried)) if not _refused(evidence, candidate)]
    chosen = max(passed, default=0)
    stop = int(np.nanargmin(evidence.nll[chosen]))
    return Decision(
        chosen,
        stop,
        tried[chosen],
        int(evidence.steps[stop]),
        evidence.flipped(first),
        evidence.confidence(chosen),
        evidence.source_change(chosen),
        "" if passed else _refused(evidence, first),
    )


def _refused(evidence: ShiftEvidence, candidate: int) -> str:
    """Why a candidate is not taken; "" if it passes."""
    if evidence.confidence(0) > CERTAIN:
        return "certain"
    beta, change = float(evidence.betas[candidate]), evidence.source_change(candidate)
    if change > LIMITS[beta] or (
        beta > FIRST and change > evidence.source_change(evidence.betas.tolist().index(FIRST))
    ):
        return "source"
    if evidence.price(candidate) > FREE_PRICE + PRICE_A_FLIP * evidence.flipped(candidate):
        return "price"
    return ""
