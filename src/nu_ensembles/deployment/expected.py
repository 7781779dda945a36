"""What to expect on the unlabelled rows: accuracy, errors by class, confidence where the model is wrong; with no label.

An estimate of the accuracy (`accuracy.py`) says how much probability is right on average. The temperature that brings
the mean confidence there makes a chance of being right for each row, and all else follows from these.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nu_ensembles.deployment.accuracy import AccuracyEstimate
from nu_ensembles.metrics.temperature import scale_temperature

COLDEST, HOTTEST = 0.05, 20.0


@dataclasses.dataclass(frozen=True)
class ClassExpectation:
    """Rows that are predicted to be of a class: how many there are, and what share of them is expected to be wrong."""

    predicted_rows: int
    error: float


@dataclasses.dataclass(frozen=True)
class DeploymentExpectation:
    """What is expected of a classifier on the unlabelled rows.

    Attributes:
      accuracy: low, high: its interval, meant to hold in nine of ten deployments like those that it was tried on.
      confidence: what the classifier says itself, on average.
      confidence_when_wrong: what it says, on average, where it is expected to be wrong.
      by_class: class -> rows predicted to be of it, and the expected share of errors among them.
      temperatures: that turn its probabilities into chances of being right with the mean `accuracy`, `low` and `high`.
      n_rows: unlabelled rows that this was estimated on.
      differs: whether the unlabelled rows differ from the labelled ones.
      limit: a sentence that says how far such estimates may be trusted.
    """

    accuracy: float
    low: float
    high: float
    confidence: float
    confidence_when_wrong: float
    by_class: Mapping[str, ClassExpectation]
    temperatures: tuple[float, float, float]
    n_rows: int
    differs: bool
    limit: str

    def sentence(self) -> str:
        """The estimate in words."""
        return (
            f"Expected accuracy on the unlabelled rows: {self.accuracy:.2f} ({self.low:.2f} … {self.high:.2f}); mean "
            f"confidence there {self.confidence:.2f}, and {self.confidence_when_wrong:.2f} where it is wrong."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON knows them."""
        return {**dataclasses.asdict(self), "temperatures": list(self.temperatures)}

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any]) -> DeploymentExpectation:
        """What `to_dict` made.

        Args:
          entry: plain values.
        """
        by_class = {str(name): ClassExpectation(**of) for name, of in entry["by_class"].items()}
        cold, mean, hot = (float(each) for each in entry["temperatures"])
        return cls(**{**entry, "by_class": by_class, "temperatures": (cold, mean, hot)})


def expect(estimate: AccuracyEstimate, probabilities: np.ndarray, classes: Sequence[Any]) -> DeploymentExpectation:
    """What follows from an estimate of the accuracy.

    Args:
      estimate: of the accuracy on the rows.
      probabilities: `[M, C]`, what the classifier predicts there.
      classes: `[C]`.
    """
    wanted = estimate.accuracy, estimate.low, estimate.high
    temperatures = tuple(temperature_for(probabilities, each) for each in wanted)
    right = chance_of_being_right(probabilities, temperatures[0])
    confidence, predicted = probabilities.max(axis=1), probabilities.argmax(axis=1)
    wrong = 1.0 - right
    by_class = {}
    for number, name in enumerate(classes):
        here = predicted == number
        if here.any():
            by_class[str(name)] = ClassExpectation(int(here.sum()), float(wrong[here].mean()))
    return DeploymentExpectation(
        accuracy=estimate.accuracy,
        low=estimate.low,
        high=estimate.high,
        confidence=float(confidence.mean()),
        confidence_when_wrong=float((wrong * confidence).sum() / max(float(wrong.sum()), 1e-12)),
        by_class=by_class,
        temperatures=(temperatures[0], temperatures[1], temperatures[2]),
        n_rows=len(probabilities),
        differs=estimate.differs,
        limit=estimate.limit,
    )


def chance_of_being_right(probabilities: np.ndarray, temperature: float) -> np.ndarray:
    """`[M]`, for each row of probabilities `[M, C]`."""
    return scale_temperature(probabilities, temperature).max(axis=1)


def temperature_for(probabilities: np.ndarray, accuracy: float) -> float:
    """The temperature at which the mean confidence of probabilities `[M, C]` is an accuracy, or comes closest to it."""
    low, high = np.log(COLDEST), np.log(HOTTEST)
    for _ in range(40):
        middle = (low + high) / 2
        if chance_of_being_right(probabilities, float(np.exp(middle))).mean() > accuracy:
            low = middle
        else:
            high = middle
    return float(np.exp((low + high) / 2))
