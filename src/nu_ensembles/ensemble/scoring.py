"""All metrics of what an ensemble predicts: of its members where they differ, else of what it hands out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from nu_ensembles import metrics

if TYPE_CHECKING:
    from nu_ensembles.ensemble.trained import Ensemble

# Told by the members alone; a companion or a calibrator, which come after them, do not enter.
OF_MEMBERS = frozenset(
    (
        *("epistemic", "mutual_information", "mutual_information_corrected", "variance", "disagreement"),
        *("member_accuracy", "member_nll", "accuracy_gain", "nll_gain"),
    )
)


def score(ensemble: Ensemble, x: Any, y: np.ndarray, level: float | None = None) -> dict[str, float]:
    """What `metrics.evaluate` says of an ensemble's predictions, its companion and calibrator included.

    Args:
      y: class numbers `[N]`.
      level: of the intervals, None for none.
    """
    scores = metrics.evaluate(ensemble.predict_members(x), y, intervals=level)
    if ensemble.is_mean_of_members:
        return scores
    calibrated = metrics.evaluate(ensemble.predict_proba(x), y, intervals=level)
    return {name: value if _of_members(name) else calibrated[name] for name, value in scores.items()}


def _of_members(name: str) -> bool:
    return name.removesuffix("_low").removesuffix("_high") in OF_MEMBERS
