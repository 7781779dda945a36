"""Conformal prediction sets: a set of classes that contains the true one with a promised probability.

The promise needs nothing of the model, only that the labelled data used for fitting and the new data come
from the same source. A better calibrated model pays by smaller sets. References: Vovk, Gammerman & Shafer
(2005); Sadinle, Lei & Wasserman (2019) for "threshold"; Romano, Sesia & Candès (2020) for "adaptive".
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nu_ensembles.checks import check_array, checked
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.metrics.inputs import check_labels, check_member_probs, check_predictions, mean_probability
from nu_ensembles.metrics.scores import label_probability
from nu_ensembles.metrics.weighting import Values


class ConformalSets:
    """Split-conformal prediction sets from mean probabilities.

    `score="threshold"` includes every class whose probability is large enough: the smallest sets on average,
    empty ones among them where nothing is probable. `score="adaptive"` adds classes in order of probability
    until enough mass is gathered: larger sets for hard samples, never empty.

    Args:
      coverage: promised share of new samples whose set contains the label, over draws of both data sets.
      score: "threshold" or "adaptive".

    Attributes:
      limit_: the largest score that enters a set; `inf` (all classes) when there are too few labels for the
        promise, fewer than about coverage / (1 - coverage).
    """

    limit_: float

    @checked
    def __init__(self, coverage: float = 0.9, score: Literal["threshold", "adaptive"] = "threshold") -> None:
        if not 0.0 < coverage < 1.0:
            raise InputError(f"coverage is {coverage}: give a share between 0 and 1, such as 0.9.")
        if score not in ("threshold", "adaptive"):
            raise unknown_name("score", score, ("threshold", "adaptive"))
        self.coverage = coverage
        self.score = score

    @checked
    def fit(self, probs: ArrayLike, labels: ArrayLike) -> ConformalSets:
        """Finds the limit on data that the model was not trained on.

        Args:
          probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
          labels: `[N]`.
        """
        predictions = check_predictions(probs, labels)
        scores = label_probability(self._scores(predictions.probs), predictions.labels)
        # The rank counts the new sample among N + 1 exchangeable ones. The tolerance keeps 0.9 · 10 from
        # being 9.000…1.
        rank = int(np.ceil((len(scores) + 1) * self.coverage - 1e-9))
        self.limit_ = float(np.sort(scores)[rank - 1]) if rank <= len(scores) else float("inf")
        return self

    @checked
    def transform(self, probs: ArrayLike) -> NDArray[np.bool_]:
        """Which classes each sample's set contains: bool `[N, C]`.

        Args:
          probs: `[N, C]`, or members `[K, N, C]`, which are averaged first.
        """
        if not hasattr(self, "limit_"):
            raise InputError("These ConformalSets have no limit yet: call fit on labelled data first.")
        mean_probs = mean_probability(check_member_probs(probs))
        inside = self._scores(mean_probs) <= self.limit_
        if self.score == "adaptive":
            inside[np.arange(len(inside)), mean_probs.argmax(axis=1)] = True
        return inside

    def _scores(self, probs: Values) -> Values:
        """How unusual each class would be as the label, `[N, C]`."""
        if self.score == "threshold":
            return 1.0 - probs
        order = np.argsort(-probs, axis=1, kind="stable")
        gathered = np.cumsum(np.take_along_axis(probs, order, axis=1), axis=1)
        scores = np.empty_like(gathered)
        np.put_along_axis(scores, order, gathered, axis=1)
        return scores


@checked
def set_coverage(sets: ArrayLike, labels: ArrayLike) -> tuple[float, float]:
    """Share of samples whose set contains the label, and mean number of classes in a set.

    Args:
      sets: bool `[N, C]` as `ConformalSets.transform` returns.
      labels: `[N]`.
    """
    inside, labels = check_array(sets, "sets"), check_array(labels, "labels")
    if inside.ndim != 2 or labels.shape != inside.shape[:1] or inside.dtype.kind not in "biu":
        raise InputError(f"Sets have shape {inside.shape} and labels {labels.shape}: give bool [N, C] and [N].")
    inside = inside.astype(bool)
    covered = label_probability(inside.astype(np.float64), check_labels(labels, *inside.shape))
    return float(covered.mean()), float(inside.sum(axis=1).mean())
