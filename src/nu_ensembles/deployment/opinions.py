"""What speaks of a classifier's accuracy on rows without labels: three opinions that err in different ways.

  confidence   its own, on average (it is too sure where no label stands behind a prediction)
  threshold    the share of rows on which it is at least as sure as out of fold, where a share as large as its accuracy
               there is (Garg et al., *Leveraging unlabeled data to predict out-of-distribution performance*, 2022)
  neighbours   the share of rows on which the labels of the nearest labelled rows say the same

Their mean was nearer than each of them, and than combinations whose weights were learnt; and where they differ among
themselves it was further off (`benchmarks/deployment_rules.py`).
"""

from __future__ import annotations

import dataclasses

import numpy as np

N_NEIGHBOURS = 5
# More labelled rows than this hardly move the nearest one's label, and all are compared with all.
MOST_LABELLED = 2000


@dataclasses.dataclass(frozen=True)
class Opinions:
    """Three estimates of one accuracy."""

    confidence: float
    threshold: float
    neighbours: float

    @property
    def accuracy(self) -> float:
        """Their mean."""
        return (self.confidence + self.threshold + self.neighbours) / 3

    @property
    def spread(self) -> float:
        """How far the highest lies above the lowest."""
        all_three = dataclasses.astuple(self)
        return max(all_three) - min(all_three)


def opinions(on_unlabeled: np.ndarray, held_out: np.ndarray, y: np.ndarray, nearest: np.ndarray) -> Opinions:
    """Of a classifier.

    Args:
      on_unlabeled: `[M, C]`, what it predicts on unlabelled rows; nearest: int `[M]`, see `nearest_labels`.
      held_out: `[N, C]`, what it predicts on labelled rows that it was not trained on; y: int `[N]`, their classes.
    """
    sure, sure_here = on_unlabeled.max(axis=1), held_out.max(axis=1)
    right = float((held_out.argmax(axis=1) == y).mean())
    threshold = float((sure >= np.quantile(sure_here, 1 - right)).mean())
    return Opinions(float(sure.mean()), threshold, float((on_unlabeled.argmax(axis=1) == nearest).mean()))


def nearest_labels(x: np.ndarray, y: np.ndarray, rows: np.ndarray) -> np.ndarray:
    """Of rows `[M, …]` the class that the nearest labelled rows `x` `[N, …]` have, int `[M]`; near ones count more."""
    from sklearn.neighbors import KNeighborsClassifier

    chosen = np.sort(np.random.default_rng(0).permutation(len(x))[:MOST_LABELLED])
    known, asked = (np.asarray(part, np.float32).reshape(len(part), -1) for part in (x[chosen], rows))
    found = KNeighborsClassifier(min(N_NEIGHBOURS, len(known)), weights="distance").fit(known, y[chosen])
    return np.asarray(found.predict(asked))
