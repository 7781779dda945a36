"""How accurate a classifier is on unlabelled rows, estimated without their labels.

Where the rows differ it lies halfway between the mean confidence there of the classifier that the rule for beta took,
which it has made unsure where no label stands behind a prediction, and the mean of three opinions of the standard
ensemble (`opinions.py`). No combination with weights that were learnt on other tables was nearer, with whatever else
was at hand: agreement of members, of folds and of other kinds of classifiers, flips, weights by how much a labelled row
looks like the others. What all miss are predictions that all share and that are wrong. The interval is as wide as
errors were on shifts, and wider where the opinions differ: it cannot be derived. `benchmarks/deployment_rules.py`
measures it. Where rows do not differ, accuracy out of fold is what to expect.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.stats import beta as beta_distribution

from nu_ensembles.deployment.opinions import Opinions
from nu_ensembles.metrics.temperature import fit_temperature, scale_temperature

# Distance from the estimate to either end of the interval: at least, and for each unit by which opinions differ. On the
# development shifts 95 of 100 true accuracies lay within, on others 91.
AROUND, AROUND_A_SPREAD = 0.12, 0.5
# The same where no probe was trained: confidence times agreement of members, within this.
AROUND_AGREEMENT = 0.3
LEVEL = 0.9
# Twenty rows do not settle a temperature: as with the calibrator, of prior · (log T)² beside the summed NLL.
TEMPERATURE_PRIOR = 3.0
LIMIT_DIFFERENT = (
    "Such estimates were off by a tenth on average where rows differed, and by half where all networks shared an "
    "error: twenty labelled rows tell more (nu-ensembles confirm)."
)
LIMIT_VALIDATED = "It rests on {} labelled rows from there."
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


def accuracy_under_shift(of_standard: Opinions, confidence: float) -> AccuracyEstimate:
    """Of the classifier that the rule chose, on unlabelled rows that differ.

    Args:
      of_standard: what speaks of the standard ensemble's accuracy there.
      confidence: of the classifier itself there, mean.
    """
    accuracy, around = (of_standard.accuracy + confidence) / 2, AROUND + AROUND_A_SPREAD * of_standard.spread
    return AccuracyEstimate(accuracy, max(0.0, accuracy - around), min(1.0, accuracy + around), True, LIMIT_DIFFERENT)


def accuracy_by_agreement(members: np.ndarray) -> AccuracyEstimate:
    """Where rows differ and no probe was trained, of members' probabilities `[K, M, C]` there."""
    confidence = float(members.mean(axis=0).max(axis=-1).mean())
    accuracy = confidence * float(pair_agreement(members).mean())
    low, high = max(0.0, accuracy - AROUND_AGREEMENT), min(1.0, accuracy + AROUND_AGREEMENT)
    return AccuracyEstimate(accuracy, low, high, True, LIMIT_DIFFERENT)


def accuracy_by_validation(held_out: np.ndarray, y: np.ndarray, on_unlabeled: np.ndarray) -> AccuracyEstimate:
    """From labelled rows of the place itself, which may be harder than the others: those that members disagree on.

    The temperature that suits these rows makes the chance of being right of all others.

    Args:
      held_out: `[N, C]`, of the labelled rows from there; y: int `[N]`.
      on_unlabeled: `[M, C]`.
    """
    temperature = fit_temperature(held_out, y, TEMPERATURE_PRIOR)
    accuracy = float(scale_temperature(on_unlabeled, temperature).max(axis=1).mean())
    low, high = _jeffreys(accuracy * len(y), len(y))
    return AccuracyEstimate(accuracy, min(low, accuracy), max(high, accuracy), True, LIMIT_VALIDATED.format(len(y)))


def accuracy_without_shift(right: np.ndarray, n_unlabeled: int) -> AccuracyEstimate:
    """Where rows do not differ, from rows that were held out.

    Args:
      right: bool `[N]`, whether a held-out row was predicted right.
      n_unlabeled: rows whose accuracy is to be expected, which vary, too.
    """
    n, k = len(right), int(right.sum())
    low, high = _jeffreys(k, n)
    # Made wider by as much as the rows that it is for vary themselves.
    wider = (1.0 + n / max(n_unlabeled, 1)) ** 0.5
    accuracy = k / n
    low, high = max(0.0, accuracy - (accuracy - low) * wider), min(1.0, accuracy + (high - accuracy) * wider)
    return AccuracyEstimate(accuracy, min(low, accuracy), max(high, accuracy), False, LIMIT_SAME)


def _jeffreys(k: float, n: int) -> tuple[float, float]:
    """Jeffreys' interval of a rate."""
    tail = (1 - LEVEL) / 2
    low, high = (float(beta_distribution.ppf(q, k + 0.5, n - k + 0.5)) for q in (tail, 1 - tail))
    return low, high


def pair_agreement(members: np.ndarray) -> np.ndarray:
    """The share of pairs of members `[K, N, C]` that predict the same class, of each row: `[N]`."""
    n, votes = len(members), members.argmax(axis=-1)
    if n < 2:
        return np.ones(members.shape[1])
    counts = (votes[..., None] == np.arange(members.shape[-1])).sum(axis=0)
    return (counts * (counts - 1)).sum(axis=-1) / (n * (n - 1))
