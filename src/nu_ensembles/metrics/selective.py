"""Does confidence rank predictions well: errors below correct ones, strangers below familiar inputs?

Calibration asks whether 80 % means 80 %; these ask only for the order. They are what counts when a share of the cases
goes to a human.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import entr

from nu_ensembles.checks import checked
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.metrics.inputs import Floats, check_member_probs, check_predictions, mean_probability
from nu_ensembles.metrics.weighting import Values, Weights, class_blocks, divide, group_sums, unit_weights


class RiskCoverage(NamedTuple):
    """Points of a risk-coverage curve, from the most confident samples to all of them.

    Attributes:
      coverage: share of samples whose confidence is at least `threshold`, `[G]`, ascending.
      risk: share of errors among these, `[G]`.
      threshold: the confidence, `[G]`, descending.
    """

    coverage: Values
    risk: Values
    threshold: Values


@checked
def error_auroc(probs: ArrayLike, labels: ArrayLike) -> float:
    """AUROC of confidence for errors: how often a correct prediction is more confident than a wrong one.

    P(confidence of a correct prediction > confidence of a wrong one), ties count ½. Range 0 … 1, higher is better, ½ is
    chance; `nan` if nothing or everything is wrong. Hides calibration (any monotone change of the confidence leaves it
    as it is) and accuracy: a better model makes harder errors. Reference: Hendrycks & Gimpel (2017).

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
    """
    predictions = check_predictions(probs, labels)
    plain = unit_weights(len(predictions.labels))
    return float(weighted_auroc(predictions.confidence, predictions.right, plain)[0])


@checked
def ood_auroc(probs: ArrayLike, ood_probs: ArrayLike, *, score: str = "confidence") -> float:
    """AUROC for telling out-of-distribution inputs from familiar ones.

    The score is `confidence` (max p of the mean), `entropy` of the mean probability, or `epistemic`
    (entropy of the mean minus mean entropy of the members: what they disagree about).

    Range 0 … 1, higher is better, ½ is chance. Hides how far away the foreign data are: easy ones give 1 to
    any model.

    Args:
      probs: familiar inputs, `[N, C]` or members `[K, N, C]`.
      ood_probs: foreign inputs, `[M, C]` or members `[K, M, C]`.
      score: "confidence", "entropy" or "epistemic".
    """
    known = {"confidence": _confidence, "entropy": predictive_entropy, "epistemic": epistemic_uncertainty}
    if score not in known:
        raise unknown_name("score", score, known)
    inside, outside = check_member_probs(probs), check_member_probs(ood_probs)
    if inside.shape[2] != outside.shape[2]:
        raise InputError(
            f"The two inputs have {inside.shape[2]} and {outside.shape[2]} classes: give predictions of one model."
        )
    scores = np.concatenate([known[score](inside), known[score](outside)])
    familiar = np.concatenate([np.ones(inside.shape[1]), np.zeros(outside.shape[1])])
    sign = 1.0 if score == "confidence" else -1.0
    return float(weighted_auroc(sign * scores, familiar, unit_weights(len(scores)))[0])


def _confidence(members: Floats) -> Values:
    return mean_probability(members).max(axis=1)


def predictive_entropy(members: Floats) -> Values:
    """Entropy in nats of the mean probability: `[K, N, C]` -> `[N]`."""
    return row_entropy(mean_probability(members))


def row_entropy(probs: NDArray[np.floating]) -> Values:
    """Entropy in nats of each row: `[N, C]` -> `[N]`."""
    total = np.zeros(len(probs))
    # a few classes at a time: the logarithms of all entries at once would be a second copy of the predictions
    for block in class_blocks(probs.shape[1]):
        total += entr(probs[:, block]).sum(axis=1)
    return total


def epistemic_uncertainty(members: Floats) -> Values:
    """Entropy of the mean minus mean entropy of the members, in nats: `[K, N, C]` -> `[N]`.

    0 where all members agree, up to ln K where each is sure of something else (Houlsby et al. 2011).
    """
    return np.maximum(predictive_entropy(members) - member_entropy(members), 0.0)


def member_entropy(members: Floats) -> Values:
    """Mean over members of each one's entropy, in nats: `[K, N, C]` -> `[N]`."""
    return np.sum([row_entropy(member) for member in members], axis=0) / len(members)


@checked
def aurc(probs: ArrayLike, labels: ArrayLike) -> float:
    """Area under the risk-coverage curve: error rate among the t most confident samples, mean over t = 1 … N.

    Range 0 … 1, lower is better; a model that cannot rank scores its error rate. Samples of equal confidence
    count as in random order. Hides whether a low value comes from accuracy or from ranking: compare with the
    error rate. Reference: Geifman, Uziel & El-Yaniv (2019).

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
    """
    predictions = check_predictions(probs, labels)
    plain = unit_weights(len(predictions.labels))
    return float(weighted_aurc(predictions.confidence, 1.0 - predictions.right, plain)[0])


@checked
def risk_coverage(probs: ArrayLike, labels: ArrayLike) -> RiskCoverage:
    """Error rate among the samples that a confidence threshold lets through, for every threshold.

    Args:
      probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
      labels: `[N]`.
    """
    predictions = check_predictions(probs, labels)
    distinct, group = np.unique(-predictions.confidence, return_inverse=True)
    passed = np.cumsum(np.bincount(group))
    errors = np.cumsum(np.bincount(group, 1.0 - predictions.right))
    return RiskCoverage(passed / passed[-1], errors / passed, -distinct)


def weighted_auroc(scores: Values, positive: Values, weights: Weights) -> Values:
    """AUROC of `scores` `[N]` for `positive` (0 or 1) under each column of `weights` -> `[R]`, `nan` if undefined."""
    distinct, group = np.unique(scores, return_inverse=True)
    above = group_sums(group, positive, len(distinct), weights)
    below = group_sums(group, 1.0 - positive, len(distinct), weights)
    n_pairs = above.sum(axis=0) * below.sum(axis=0)
    beaten = (above * (np.cumsum(below, axis=0) - 0.5 * below)).sum(axis=0)
    return np.where(n_pairs > 0, beaten / np.maximum(n_pairs, 1.0), np.nan)


def weighted_aurc(confidence: Values, wrong: Values, weights: Weights) -> Values:
    """AURC under each column of integer `weights` -> `[R]`."""
    distinct, group = np.unique(-confidence, return_inverse=True)
    size = group_sums(group, np.ones(len(group)), len(distinct), weights)
    errors = group_sums(group, wrong, len(distinct), weights)
    rate = divide(errors, size)
    passed = np.cumsum(size, axis=0)
    before = passed - size
    n_samples = int(passed[-1].max())
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, n_samples + 1))])
    # Within a group of ties errors rise linearly, so sum_t (E + (t-T) r) / t has a closed form in harmonic
    # numbers.
    steps = harmonic[passed.astype(np.int64)] - harmonic[before.astype(np.int64)]
    area = rate * size + (np.cumsum(errors, axis=0) - errors - rate * before) * steps
    return area.sum(axis=0) / passed[-1]
