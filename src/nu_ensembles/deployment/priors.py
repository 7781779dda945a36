"""Class shares of the unlabelled rows, where these differ from those of the labels and nothing else does.

Two tests come first, and the interval of some class must lie beyond half as much again, or two thirds, of its share
among the labels: these are a sample, and a trained ensemble prefers classes as its labels happened to fall, of which no
test of rows knows. With few labels a class that is all there is to see, so then nothing is claimed. Where only shares
differ, networks predict some classes more often there than out of fold, which a chi-squared test of the predicted
classes shows (Lipton, Wang and Smola, *Detecting and correcting for label shift with black box predictors*, 2018); and
labelled rows, thinned to the new shares, cannot be told from unlabelled ones. The shares are those that make the
unlabelled rows most likely, by EM (Saerens, Latinne and Decaestecker, 2002) over probabilities whose bias was corrected
class by class out of fold, without which it is worth little (Alexandari, Kundaje and Shrikumar, 2020).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.stats import chi2_contingency, norm

from nu_ensembles.calibration import VectorScaling
from nu_ensembles.deployment.shift import FEWEST_ROWS, two_sample_test

LEVEL = 0.005
MOST_ITERATIONS, CLOSE_ENOUGH = 500, 1e-6
# Shares are as if so many unlabelled rows more had been seen with those of the labels: probabilities that networks
# learnt from few labels would move them too far.
PSEUDO_ROWS = 100.0
REPEATS, INTERVAL = 40, 0.95
# What is claimed: shares by more than this factor from the labels', learnt from so many labels a class. On splits of
# tables with the same shares in both places, what was moved by less or learnt from fewer was wrong, and cost 2 to 11 %.
LEAST_FACTOR, FEWEST_LABELS_A_CLASS = 1.5, 5


@dataclasses.dataclass(frozen=True)
class Priors:
    """Class shares among the labels and, estimated, among the unlabelled rows.

    Attributes:
      labelled: class -> its share among the labels.
      estimated: class -> its share among the unlabelled rows; low, high: its 95 % interval.
      p_value: of the test that the networks predict classes as often there as out of fold.
    """

    labelled: Mapping[str, float]
    estimated: Mapping[str, float]
    low: Mapping[str, float]
    high: Mapping[str, float]
    p_value: float

    @property
    def ratio(self) -> np.ndarray:
        """`[C]`, what probabilities are multiplied by."""
        return np.array([self.estimated[name] / self.labelled[name] for name in self.labelled])

    def sentence(self) -> str:
        """What the verdict says of it."""
        most = max(self.labelled, key=lambda name: abs(np.log(self.estimated[name] / self.labelled[name])))
        return (
            f"Classes have other shares among the unlabelled rows (p = {self.p_value:.1g}; most of all {most}: "
            f"{self.estimated[most]:.2f}, {self.low[most]:.2f} … {self.high[most]:.2f}, where the labels have "
            f"{self.labelled[most]:.2f}), and probabilities are moved to these (priors=True)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as JSON knows them."""
        return {name: value if name == "p_value" else dict(value) for name, value in vars(self).items()}


def estimate_priors(
    classes: Sequence[Any],
    out_of_fold: np.ndarray,
    y: np.ndarray,
    on_unlabeled: np.ndarray,
    x: np.ndarray,
    x_unlabeled: np.ndarray,
    weight: np.ndarray | None = None,
) -> Priors | None:
    """The shares, or None where they do not differ or more than they does.

    Args:
      classes: `[C]`.
      out_of_fold: `[N, C]`, probabilities of labelled rows by networks that had not seen them.
      y: `[N]`, their class numbers.
      on_unlabeled: `[M, C]`, the ensemble's probabilities.
      x, x_unlabeled: the rows themselves.
      weight: `[N]`, of the labelled rows.
    """
    n_classes = out_of_fold.shape[1]
    if len(y) < FEWEST_LABELS_A_CLASS * n_classes:
        return None
    weight = np.ones(len(y)) if weight is None else weight
    p_value = same_classes_predicted(out_of_fold, on_unlabeled)
    if p_value >= LEVEL:
        return None

    def shares(rows: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        fitted = VectorScaling().fit(out_of_fold[rows], y[rows], weight[rows])
        labelled = np.bincount(y[rows], weight[rows], n_classes) + 0.5
        labelled /= labelled.sum()
        return labelled, most_likely_shares(fitted.apply(on_unlabeled[others]), labelled)

    n, m = len(y), len(on_unlabeled)
    labelled, estimated = shares(np.arange(n), np.arange(m))
    if not _told_apart_by_shares_alone(x, y, x_unlabeled, estimated / labelled):
        return None
    rng = np.random.default_rng(61)
    repeats = [np.log(shares(rng.integers(n, size=n), rng.integers(m, size=m))[1]) for _ in range(REPEATS)]
    width = float(norm.isf((1 - INTERVAL) / 2)) * np.std(repeats, axis=0)
    ends = estimated * np.exp(-width), np.minimum(estimated * np.exp(width), 1.0)
    # The test takes rows for independent, and networks of few labels err alike on many: with 50 rows of nine classes it
    # told shares apart that were the same. What the labels leave open is in the intervals.
    if not ((LEAST_FACTOR * labelled < ends[0]) | (labelled / LEAST_FACTOR > ends[1])).any():
        return None
    names = [str(name) for name in classes]
    by_class = (dict(zip(names, each.tolist(), strict=True)) for each in (labelled, estimated, *ends))
    return Priors(*by_class, p_value=p_value)


def same_classes_predicted(out_of_fold: np.ndarray, on_unlabeled: np.ndarray) -> float:
    """The p-value of classes being predicted equally often in both places, of probabilities `[N, C]` and `[M, C]`."""
    counts = np.stack([np.bincount(p.argmax(axis=1), minlength=p.shape[1]) for p in (out_of_fold, on_unlabeled)])
    counts = counts[:, counts.sum(axis=0) > 0]
    return float(np.asarray(chi2_contingency(counts)[1])) if counts.shape[1] > 1 else 1.0


def most_likely_shares(probabilities: np.ndarray, learnt: np.ndarray) -> np.ndarray:
    """Shares `[C]` that make rows of these probabilities `[M, C]` most likely, where the networks learnt `learnt`."""
    shares, m = learnt.copy(), len(probabilities)
    for _ in range(MOST_ITERATIONS):
        moved = probabilities * (shares / learnt)
        moved /= moved.sum(axis=1, keepdims=True)
        updated = (moved.sum(axis=0) + PSEUDO_ROWS * learnt) / (m + PSEUDO_ROWS)
        if np.abs(updated - shares).max() < CLOSE_ENOUGH:
            return updated
        shares = updated
    return shares


def _told_apart_by_shares_alone(x: np.ndarray, y: np.ndarray, x_unlabeled: np.ndarray, ratio: np.ndarray) -> bool:
    """Whether labelled rows, kept as often as their class's new share asks for, cannot be told from the others."""
    kept = np.random.default_rng(62).random(len(y)) < (ratio / ratio.max())[y]
    if kept.sum() < FEWEST_ROWS:
        return False
    shift = two_sample_test(x[kept], x_unlabeled)
    return shift is not None and not shift.differs
