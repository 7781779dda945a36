"""From the members' probabilities to the numbers that a cell keeps.

Every metric of `metrics.evaluate` on the test rows, as trained and after temperature scaling fitted on the validation
rows; what selection needs on the validation rows; and how far the members fitted their random labels: accuracy on them,
and V-hat [eq. 2] on the unlabelled rows beside (K-1)/(2cK), its value under a perfect fit [Proposition 1].
"""

from __future__ import annotations

from typing import Any

import numpy as np

from nu_ensembles import metrics
from nu_ensembles.theory import empirical_variance, expected_variance
from nu_ensembles_studies.measure.parts import Parts
from nu_ensembles_studies.results.json_numbers import plain

N_BINS = 15
# Of what a figure shows; more would only make files larger.
N_DIGITS = 5


def measure(members: np.ndarray, parts: Parts, targets: np.ndarray | None) -> dict[str, Any]:
    """All numbers of one cell at one epoch, plain values.

    Args:
      members: probabilities `[K, N, C]` on `parts.measured_rows`.
      targets: int `[K, M]`, the labels that the members were given on the unlabelled rows, or None.
    """
    test, validation, unlabeled = parts.cut(members)
    found: dict[str, Any] = {"test": plain(metrics.evaluate(test, parts.y_test))}
    found["members"] = of_members(test, parts.y_test)
    if len(parts.y_validation):
        scaling = metrics.TemperatureScaling().fit(validation, parts.y_validation)
        scaled = plain(metrics.evaluate(scaling.transform(test)[None], parts.y_test))
        # The mean is scaled and the members vote as before, so what tells members apart stays as it was.
        found["scaled"] = {name: value for name, value in scaled.items() if not _tells_members_apart(name)}
        found["temperature"] = float(scaling.temperature_)
        found["validation"] = plain(metrics.evaluate(validation, parts.y_validation))
    found["reliability"] = reliability(test.mean(axis=0, dtype=np.float64), parts.y_test)
    if len(parts.y_unlabeled):
        found["unlabeled"] = fit_on_unlabeled(unlabeled, parts.y_unlabeled, targets)
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


def _tells_members_apart(metric: str) -> bool:
    names = ("member_", "mutual_", "variance", "disagreement", "epistemic")
    return metric.startswith(names) or metric.endswith("_gain")
