"""The rule that chooses beta where the unlabelled rows come from elsewhere.

0.2 is tried first; then 0.6 if it passes, and 0.03 if it does not. The largest that passes is taken. A candidate passes
  - if its out-of-fold NLL is lower than the standard ensemble's by two in a thousand (the smallest one's: no higher;
    the largest one's: no higher than the middle one's, either),
  - if what it would cost were the standard ensemble calibrated there (its price) is no more than what speaks for it
    allows: .03 + 1.5 times the share of predictions there that it turns over + .5 times what it gains out of fold (the
    largest one must be worth what it costs beyond the middle one, too),
  - if its confidence there is not further than .03 + .5 times that gain below the accuracy that is expected there, and
  - if the standard ensemble is not all but certain there, nor expected to be right on more than nine rows of ten.
So little evidence buys little softness. The numbers were set on development shifts; docs/deployment.md says what came
of them on others, and what else was tried. Beta is in units of the labelled loss (`nu.methods.Nu`, weighting): a
constant one takes over once the labels are fitted, and what is harmless at 100 steps then ruins the ensemble at 1,000.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from nu_ensembles.deployment.evidence import ShiftEvidence
from nu_ensembles.deployment.opinions import Opinions

FIRST, LARGER, SMALLER = 0.2, 0.6, 0.03
# Candidates beside 0, and the most by which their out-of-fold NLL may change.
LIMITS = {SMALLER: 0.0, FIRST: -0.002, LARGER: -0.002}
FREE_PRICE, PRICE_A_FLIP, PRICE_A_GAIN = 0.03, 1.5, 0.5
# How far below the expected accuracy the mean confidence may lie: where it does, the candidate is less sure than right.
LESS_SURE, LESS_SURE_A_GAIN = 0.03, 0.5
# Mean confidence above which nothing is changed: where it is right, softness costs many times the loss.
CERTAIN = 0.95
# Expected accuracy above which nothing is changed, for the same reason: there is little to gain, and what did most harm
# where a shift hurts nothing was all of this kind.
MOSTLY_RIGHT = 0.9


@dataclasses.dataclass(frozen=True)
class Decision:
    """What was chosen, and on which evidence.

    Attributes:
      candidate, stop: positions in the evidence's betas and steps.
      beta, n_steps: what they stand for; a training on more rows than a fold has takes more steps.
      flipped: the share of predictions on the unlabelled rows that `FIRST` turns over.
      confidence: of what was chosen on the unlabelled rows, mean.
      source_change: of the out-of-fold NLL against the standard ensemble.
      opinions: what speaks of the standard ensemble's accuracy there.
      refused: why nothing was taken: "source", "price", "unsure", "certain", "right", or "" if something
        was.
    """

    candidate: int
    stop: int
    beta: float
    n_steps: int
    flipped: float
    confidence: float
    source_change: float
    opinions: Opinions
    refused: str

    def reason(self) -> str:
        """The evidence in words; begins in the middle of a sentence."""
        share = f"{100 * self.flipped:.0f} % of the predictions there change class under a little random labelling"
        if self.beta == 0:
            costs = {
                "source": "it would not lower the NLL out of fold",
                "price": "it could cost more than it saves",
                "unsure": "it would leave the ensemble less sure than it is expected to be right",
                "certain": "the ensemble is all but certain there",
                "right": "the ensemble is expected to be right on more than nine rows of ten there",
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
    return None if beta in tried or refused in ("certain", "right") else beta


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
        evidence.of_standard,
        "" if passed else _refused(evidence, first),
    )


def _refused(evidence: ShiftEvidence, candidate: int) -> str:
    """Why a candidate is not taken; "" if it passes."""
    if evidence.confidence(0) > CERTAIN:
        return "certain"
    if evidence.of_standard.accuracy > MOSTLY_RIGHT:
        return "right"
    beta, change = float(evidence.betas[candidate]), evidence.source_change(candidate)
    first = evidence.betas.tolist().index(FIRST)
    if change > LIMITS[beta] or (beta > FIRST and change > evidence.source_change(first)):
        return "source"
    if evidence.price(candidate) > FREE_PRICE + _worth(evidence, candidate):
        return "price"
    further = evidence.price(candidate) - evidence.price(first)
    if beta > FIRST and further > max(0.0, _worth(evidence, candidate, first)):
        return "price"
    below = evidence.of_standard.accuracy - evidence.confidence(candidate)
    return "unsure" if below > LESS_SURE + LESS_SURE_A_GAIN * evidence.source_gain(candidate) else ""


def _worth(evidence: ShiftEvidence, candidate: int, than: int = 0) -> float:
    """The price that its flips and its gain out of fold are worth, beyond those of another candidate."""
    flips = max(0.0, evidence.flipped(candidate) - evidence.flipped(than))
    return PRICE_A_FLIP * flips + PRICE_A_GAIN * (evidence.source_gain(candidate) - evidence.source_gain(than))
