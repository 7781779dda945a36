"""How accurate a classifier is on unlabelled rows, estimated without their labels.

Where the rows differ it is the mean confidence there of the classifier that the rule for beta took: where labels stand
behind nothing it has been made unsure. Agreement of members, flips, confidence out of fold, and combinations of these
with weights that were learnt on other tables were no nearer. What all miss are predictions that all networks share and
that are wrong. The interval is as wide as the errors were on shifts: it cannot be derived.
`benchmarks/deployment_rules.py` measures it, beside the standard ensemble's confidence and its members' agreement.
Where rows do not differ, accuracy out of fold is what to expect.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.stats import beta as beta_distribution

# Distances from the estimate to the ends of the interval, without a flip and for each share of flips. Nine of ten true
# accuracies lay between them in the study `deployment` (105 runs), whose shifts are wider than those before: there .17
# and .15 had held nine of ten, and held eight here.
BELOW, ABOVE = (0.24, 0.4), (0.25, 0.1)
# The same where no probe was trained: confidence times agreement of members, within this.
AROUND_AGREEMENT = 0.3
LEVEL = 0.9
LIMIT_DIFFERENT = (
    "Such estimates were off by a tenth on average where rows differed, and by half where all networks shared an "
    "error: twenty labelled rows tell more (nu-ensembles confirm)."
)
LIMIT_SAME = "It holds as long as rows come from where the labelled ones come from."


@dataclasses.dataclass(frozen=True)
class AccuracyEstimate:
    """An accuracy and its interval.

    Attributes:
      accuracy: low, high: its interval.
      differs: whether it is of rows that differ from the labelled ones.
      limit: a sentence that says how far it may be trusted.
    """

    accuracy: float
    low: float
    high: float
    differs: bool
    limit: str


def accuracy_under_shift(confidence: float, flipped: float) -> AccuracyEstimate:
    """Of the classifier that the rule chose, on unlabelled rows that differ.

    Args:
      confidence: its mean confidence there.
      flipped: the share of the standard ensemble's predictions that a little random labelling turns over.
    """
    low, high = confidence - BELOW[0] - BELOW[1] * flipped, confidence + ABOVE[0] + ABOVE[1] * flipped
    return AccuracyEstimate(confidence, max(0.0, low), min(1.0, high), True, LIMIT_DIFFERENT)


def accuracy_by_agreement(members: np.ndarray) -> AccuracyEstimate:
    """Where rows differ and no probe was trained, of members' probabilities `[K, M, C]` there."""
    confidence = float(members.mean(axis=0).max(axis=-1).mean())
    accuracy = confidence * float(pair_agreement(members).mean())
    low, high = max(0.0, accuracy - AROUND_AGREEMENT), min(1.0, accuracy + AROUND_AGREEMENT)
    return AccuracyEstimate(accuracy, low, high, True, LIMIT_DIFFERENT)


def accuracy_without_shift(right: np.ndarray, n_unlabeled: int) -> AccuracyEstimate:
    """Where rows do not differ, from rows that were held out.

    Args:
      right: bool `[N]`, whether a held-out row was predicted right.
      n_unlabeled: rows whose accuracy is to be expected, which vary, too.
    """
    n, k = len(right), int(right.sum())
    tail = (1 - LEVEL) / 2
    # Jeffreys' interval of the rate, made wider by as much as the rows that it is for vary themselves.
    low, high = (float(beta_distribution.ppf(q, k + 0.5, n - k + 0.5)) for q in (tail, 1 - tail))
    wider = (1.0 + n / max(n_unlabeled, 1)) ** 0.5
    accuracy = k / n
    low, high = max(0.0, accuracy - (accuracy - low) * wider), min(1.0, accuracy + (high - accuracy) * wider)
    return AccuracyEstimate(accuracy, min(low, accuracy), max(high, accuracy), False, LIMIT_SAME)


def pair_agreement(members: np.ndarray) -> np.ndarray:
    """The share of pairs of members `[K, N, C]` that predict the same class, of each row: `[N]`."""
    n, votes = len(members), members.argmax(axis=-1)
    if n < 2:
        return np.ones(members.shape[1])
    counts = (votes[..., None] == np.arange(members.shape[-1])).sum(axis=0)
    return (counts * (counts - 1)).sum(axis=-1) / (n * (n - 1))
