"""What a search makes small (or large): metrics of held-out predictions, along a trial's way."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.metrics import evaluate

SMALL = (
    "nll",
    "brier",
    "ece",
    "ece_debiased",
    "ece_classwise",
    "ece_top_label",
    "tace",
    "tace_nixon",
    "aurc",
    "member_nll",
)
LARGE = ("accuracy", "error_auroc", "member_accuracy", "mutual_information", "disagreement")
# Means over rows, so that parts of the rows can be scored apart from each other.
MEANS_OVER_ROWS = ("nll", "brier", "accuracy")


@dataclasses.dataclass(frozen=True)
class Objective:
    """A metric, and whether it should be large."""

    name: str

    @property
    def is_large(self) -> bool:
        return self.name in LARGE

    @property
    def sign(self) -> float:
        """What makes it one to be small."""
        return -1.0 if self.is_large else 1.0


def objectives_of(given: str | Sequence[str]) -> tuple[Objective, ...]:
    """One objective or two, by their names.

    Raises:
      InputError: a name that none has, or more than two.
    """
    names = [given] if isinstance(given, str) else list(given)
    for name in names:
        if name not in (*SMALL, *LARGE):
            raise unknown_name("objective", name, (*SMALL, *LARGE))
    if not 1 <= len(names) <= 2 or len(set(names)) < len(names):
        raise InputError(f"Give one objective, or two different ones, not {', '.join(map(repr, names)) or 'none'}.")
    return tuple(Objective(name) for name in names)


def row_values(probabilities: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
    """What single rows add to the means over rows, `[N]` by name.

    Args:
      probabilities: `[N, C]`; y: `[N]`.
    """
    of_label = probabilities[np.arange(len(y)), y]
    right = probabilities.argmax(axis=1) == y
    brier = np.sum(probabilities**2, axis=1) - 2 * of_label + 1
    nll = -np.log(np.maximum(of_label, np.finfo(np.float32).tiny))
    return {"nll": nll, "brier": brier, "accuracy": right.astype(float)}


def scores(objectives: Sequence[Objective], members: np.ndarray, y: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """float64 `[objectives, 1 + P]`: each metric on all rows, and on each part of them; nan where parts say nothing.

    Args:
      members: held-out probabilities `[K, N, C]`; y: `[N]`.
      parts: `[N]`, numbers 0 … P-1 of the parts.
    """
    n_parts = int(parts.max()) + 1
    found = np.full((len(objectives), 1 + n_parts), np.nan)
    values = row_values(members.mean(axis=0), y)
    others = any(each.name not in MEANS_OVER_ROWS for each in objectives)
    table = evaluate(members, y) if others else {}
    for place, each in enumerate(objectives):
        if each.name not in MEANS_OVER_ROWS:
            found[place, 0] = table[each.name]
            continue
        of_rows = values[each.name]
        found[place, 0] = of_rows.mean()
        found[place, 1:] = np.bincount(parts, of_rows, n_parts) / np.bincount(parts, minlength=n_parts)
    return found
