"""Answering only when confident enough: a threshold that keeps the error below a target.

The threshold is chosen on labelled data that the model has not seen. With few of them the error among
accepted samples is itself uncertain, so by default the target holds with 95 % probability, not just on the
data at hand.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import betaincinv

from nu_ensembles.checks import checked
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.inputs import Ints, check_member_probs, check_predictions, mean_probability
from nu_ensembles.metrics.weighting import Values

COVERAGES = np.arange(1, 21) / 20
"""Shares of accepted samples that are tried; few, because each try costs a little of the guarantee."""


class Abstention:
    """Accepts predictions whose confidence reaches a threshold fitted for a target error.

    `fit` tries the thresholds that accept 5 %, 10 %, … of the samples and keeps the lowest whose error is at
    most the target: its Clopper-Pearson upper limit at level `guarantee`, divided over the 20 tries (Bonferroni; the
    idea is Geifman & El-Yaniv 2017). If none qualifies nothing is accepted.

    Args:
      target_error: largest acceptable share of errors among accepted samples.
      guarantee: probability with which the target holds for new data of the same kind; None compares the
        plain share on the given data, which new data exceed half of the time.

    Attributes:
      threshold_: smallest accepted confidence, `inf` if nothing is accepted.
      coverage_: share accepted of the fitted data.
      error_: share of errors among these (`nan` if none).
      error_limit_: the upper limit that was compared with the target.
    """

    threshold_: float
    coverage_: float
    error_: float
    error_limit_: float

    @checked
    def __init__(self, target_error: float, guarantee: float | None = 0.95) -> None:
        if not 0.0 < target_error < 1.0:
            raise InputError(f"target_error is {target_error}: give a share between 0 and 1.")
        if guarantee is not None and not 0.0 < guarantee < 1.0:
            raise InputError(f"guarantee is {guarantee}: give a probability between 0 and 1, or None.")
        self.target_error = target_error
        self.guarantee = guarantee

    @checked
    def fit(self, probs: ArrayLike, labels: ArrayLike) -> Abstention:
        """Chooses the threshold on data that the model was not trained on.

        Args:
          probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
          labels: `[N]`.
        """
        predictions = check_predictions(probs, labels)
        descending = np.sort(predictions.confidence)[::-1]
        thresholds = descending[np.ceil(COVERAGES * len(descending)).astype(int) - 1]
        # counted with >=, so that samples tied with the threshold are all in
        accepted = predictions.confidence >= thresholds[:, None]
        n_accepted = accepted.sum(axis=1)
        n_errors = (accepted * (1.0 - predictions.right)).sum(axis=1)
        limits = n_errors / n_accepted
        if self.guarantee is not None:
            limits = upper_limit(n_errors, n_accepted, (1.0 - self.guarantee) / len(COVERAGES))
        fitting = np.flatnonzero(limits <= self.target_error)
        if len(fitting) == 0:
            self.threshold_, self.coverage_, self.error_, self.error_limit_ = np.inf, 0.0, np.nan, np.nan
            return self
        chosen = fitting[-1]
        self.threshold_ = float(thresholds[chosen])
        self.coverage_ = float(n_accepted[chosen] / len(descending))
        self.error_ = float(n_errors[chosen] / n_accepted[chosen])
        self.error_limit_ = float(limits[chosen])
        return self

    @checked
    def accept(self, probs: ArrayLike) -> NDArray[np.bool_]:
        """Whether to answer, for each sample: `[N]`.

        Args:
          probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
        """
        if not hasattr(self, "threshold_"):
            raise InputError("This Abstention has no threshold yet: call fit on labelled data first.")
        return mean_probability(check_member_probs(probs)).max(axis=1) >= self.threshold_

    @checked
    def predict(self, probs: ArrayLike) -> Ints:
        """The most probable class of each accepted sample, -1 for the others: `[N]`.

        Args:
          probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
        """
        most_probable = mean_probability(check_member_probs(probs)).argmax(axis=1)
        return np.where(self.accept(probs), most_probable, -1)


def upper_limit(n_errors: Values, n_samples: NDArray[np.integer], failure: float) -> Values:
    """Clopper-Pearson: the largest error rate under which so few errors still have probability `failure`."""
    n_right = np.maximum(n_samples - n_errors, 1.0)
    return np.where(n_errors >= n_samples, 1.0, betaincinv(n_errors + 1.0, n_right, 1.0 - failure))
