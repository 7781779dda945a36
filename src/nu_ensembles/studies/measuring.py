"""From the members' probabilities to the numbers that a cell keeps.

Every metric of `metrics.evaluate` on the test rows, as trained and after temperature scaling fitted on the validation
rows; what selection needs on the validation rows; and how far the members fitted their random labels: accuracy on them,
and V-hat [eq. 2] on the unlabelled rows beside (K-1)/(2cK), its value under a perfect fit [Proposition 1].
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from nu_ensembles import metrics
from nu_ensembles.studies.data import Parts
from nu_ensembles.studies.numbers import plain
from nu_ensembles.theory import empirical_variance, expected_variance

N_BINS = 15
# Of what a figure shows; more would only make files larger.
N_DIGITS = 5


@dataclasses.dataclass(frozen=True, eq=False)
class Predictions:
    """Members' probabilities `[K, N, C]` on the three sets of rows that are measured."""

    test: np.ndarray
    validation: np.ndarray
    unlabeled: np.ndarray

    @staticmethod
    def rows(parts: Parts) -> np.ndarray:
        """What is predicted, in one go."""
        return np.concatenate([parts.x_test, parts.x_validation, parts.x_unlabeled])

    @classmethod
    def cut(cls, members: np.ndarray, parts: Parts) -> Predictions:
        """The predictions on `rows`, cut into the three sets."""
        ends = np.cumsum([len(parts.x_test), len(parts.x_validation)])
        return cls(*np.split(members, ends, axis=1))


def measure(predictions: Predictions, parts: Parts, targets: np.ndarray | None) -> dict[str, Any]:
    """All numbers of one cell at one epoch, plain values.

    Args:
      targets: int `[K, M]`, the labels that the members were given on the unlabelled rows, or None.
    """
    mean = predictions.test.mean(axis=0, dtype=np.float64)
    found: dict[str, Any] = {"test": plain(metrics.evaluate(predictions.test, parts.y_test))}
    found["members"] = of_members(predictions.test, parts.y_test)
    if len(parts.y_validation):
        scaling = metrics.TemperatureScaling().fit(predictions.validation, parts.y_validation)
        scaled = metrics.evaluate(scaling.transform(predictions.test)[None], parts.y_test)
        # The mean is scaled and the members vote as before, so what tells members apart stays as it was.
        found["scaled"] = {name: value for name, value in plain(scaled).items() if not _of_members(name)}
        found["temperature"] = float(scaling.temperature_)
        found["validation"] = plain(metrics.evaluate(predictions.validation, parts.y_validation))
    found["reliability"] = reliability(mean, parts.y_test)
    if len(parts.y_unlabeled):
        found["unlabeled"] = fit_on_unlabeled(predictions.unlabeled, parts.y_unlabeled, targets)
    return found


def of_members(members: np.ndarray, labels: np.ndarray) -> dict[str, list[float]]:
    """Every member's accuracy and mean confidence, `[K, N, C]`: one that learnt nothing shows in both."""
    right, confidence = members.argmax(axis=2) == labels, members.max(axis=2)
    return {
        "accuracy": np.round(right.mean(axis=1), N_DIGITS).tolist(),
        "confidence": np.round(confidence.mean(axis=1, dtype=np.float64), N_DIGITS).tolist(),
    }


def fit_on_unlabeled(members: np.ndarray, labels: np.ndarray, targets: np.ndarray | None) -> dict[str, Any]:
    """How well `[K, M, C]` fit their random labels `[K, M]`, and their variance on the true ones `[M]`."""
    n_members, _, n_classes = members.shape
    votes = members.argmax(axis=2)
    return {
        "accuracy_on_random_labels": None if targets is None else float((votes == targets).mean()),
        "accuracy_on_true_labels": float((votes == labels).mean()),
        "variance": empirical_variance(members, labels),
        "expected_variance": expected_variance(n_members, n_classes),
    }


def reliability(probs: np.ndarray, labels: np.ndarray) -> dict[str, list[float | None]]:
    """Share, mean confidence and accuracy of the predicted class in 15 right-closed bins of confidence."""
    confidence, right = probs.max(axis=1), probs.argmax(axis=1) == labels
    bins = np.clip(np.ceil(confidence * N_BINS).astype(int) - 1, 0, N_BINS - 1)
    counts = np.bincount(bins, minlength=N_BINS)

    def means(values: np.ndarray) -> list[float | None]:
        sums = np.bincount(bins, values, N_BINS)
        pairs = zip(sums, counts, strict=True)
        return [round(float(total / count), N_DIGITS) if count else None for total, count in pairs]

    return {
        "share": np.round(counts / len(labels), N_DIGITS).tolist(),
        "confidence": means(confidence),
        "accuracy": means(right.astype(float)),
    }


def _of_members(metric: str) -> bool:
    of_members = ("member_", "mutual_", "variance", "disagreement", "epistemic")
    return metric.startswith(of_members) or metric.endswith("_gain")
