"""Further things to measure on a cell at every epoch at which it is measured.

prefixes: every metric of the first 1, 2, … K members, whose keys do not depend on K.
corruptions: accuracy, NLL, ECE and TACE under 15 corruptions at 5 severities (Hendrycks and Dietterich, 2019).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from nu_ensembles import metrics
from nu_ensembles_studies.measure.jobs import Arrived
from nu_ensembles_studies.measure.parts import Parts
from nu_ensembles_studies.results.json_numbers import plain

# Below this many, starting processes takes longer than corrupting.
FEW_IMAGES = 1000
SHIFT_METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    "accuracy": metrics.accuracy,
    "nll": metrics.nll,
    "ece": metrics.ece,
    "tace": metrics.tace,
    "brier": metrics.brier,
}


def prefixes(arrival: Arrived, parts: Parts) -> dict[str, Any]:
    """Scores on the test rows of the ensembles of the first members."""
    test, *_ = parts.cut(arrival.members)
    return {str(n): plain(metrics.evaluate(test[:n], parts.y_test)) for n in range(1, len(test) + 1)}


def corruptions(arrival: Arrived, parts: Parts) -> list[dict[str, Any]]:
    """A row for each corruption and severity of the test images."""
    rows = []
    # Scored in threads while the next set is predicted: with 100 classes that takes as long as the prediction.
    with ThreadPoolExecutor(min(8, os.cpu_count() or 1)) as scorers:
        for name, severity, images in _corrupted(parts):
            if parts.x_test.dtype != np.uint8:
                images = (images.reshape(parts.x_test.shape) / 255).astype(np.float32)
            scores = scorers.submit(_shift_scores, arrival.predict(images), parts.y_test)
            rows.append(({"corruption": name, "severity": severity}, scores))
    return [about | scores.result() for about, scores in rows]


def _shift_scores(members: np.ndarray, labels: np.ndarray) -> dict[str, float | None]:
    return plain({name: score(members, labels) for name, score in SHIFT_METRICS.items()})


_CORRUPTED: dict[str, list[tuple[str, int, np.ndarray]]] = {}


def _corrupted(parts: Parts) -> list[tuple[str, int, np.ndarray]]:
    """All corrupted test images, made once for the data set that is under way: 2.3 GB for 10,000 images."""
    from nu_ensembles.corruptions import corrupt_all

    key = hashlib.sha256(parts.x_test.tobytes()).hexdigest()
    if key not in _CORRUPTED:
        _CORRUPTED.clear()
        n_processes = (os.cpu_count() or 1) if len(parts.x_test) > FEW_IMAGES else 1
        _CORRUPTED[key] = list(corrupt_all(_bytes(parts.x_test), n_processes=n_processes, verbose=0))
    return _CORRUPTED[key]


def _bytes(x: np.ndarray) -> np.ndarray:
    """Images `[N, H, W, C]` of bytes; the digits' rows of grey levels from 0 to 1 become 8×8 of them."""
    if x.dtype == np.uint8:
        return x
    side = round((x.size / len(x)) ** 0.5)
    return np.round(255 * x).astype(np.uint8).reshape(len(x), side, side, 1)


FURTHER_SCORES: dict[str, Callable[[Arrived, Parts], Any]] = {"prefixes": prefixes, "corruptions": corruptions}
