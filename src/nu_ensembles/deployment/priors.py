"""Class shares of the unlabelled rows, where these differ from those of the labels.

Maximum likelihood by EM over calibrated probabilities (Saerens, Latinne and Decaestecker, 2002), which need a
correction of every class's bias to be worth it (Alexandari, Kundaje and Shrikumar, 2020): vector scaling, fitted out of
fold. It holds if classes look the same in both places and only their shares differ. So it is used only if the interval
excludes the shares of the labels, and if labelled rows, thinned to the new shares, cannot be told from unlabelled ones.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from nu_ensembles.calibration import VectorScaling
from nu_ensembles.deployment.shift import FEWEST_ROWS, two_sample_test

MOST_ITERATIONS = 500
CLOSE_ENOUGH = 1e-6
REPEATS = 60
# Of the intervals, all classes together.
LEVEL = 0.95
# Shares are as if so many rows of each class had been seen beside the unlabelled ones: none becomes zero.
PSEUDO_ROWS = 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class Priors:
    """Class shares among the labels and, estimated, among the unlabelled rows.

    Attributes:
      classes: `[C]`.
      labelled: `[C]`, shares among the labels, which the networks have learnt.
      estimated: `[C]`, shares among the unlabelled rows; low, high: `[C]`, their 95 % interval, all classes together.
      differs: whether the interval of a class excludes its share among the labels.
      only_shares: whether labelled rows, thinned to the estimated shares, cannot be told from the unlabelled ones; if
        they can, more than the shares differs, and the estimate stands on nothing.
    """

    classes: tuple[Any, ...]
    labelled: np.ndarray
    estimated: np.ndarray
    low: np.ndarray
    high: np.ndarray
    differs: bool
    only_shares: bool

    @property
    def applies(self) -> bool:
        """Whether probabilities should be moved to the estimated shares."""
        return self.differs and self.only_shares

    @property
    def ratio(self) -> np.ndarray:
        """`[C]`, what probabilities are multiplied by."""
        return self.estimated / self.labelled

    def sentence(self) -> str:
        """What the verdict says where they are applied."""
        most = int(np.argmax(np.abs(np.log(self.ratio))))
        return (
            f"Classes have other shares among the unlabelled rows (most of all {self.classes[most]}: "
            f"{self.estimated[most]:.2f}, {self.low[most]:.2f} … {self.high[most]:.2f}, among the labels "
            f"{self.labelled[most]:.2f}), and probabilities are moved to these (priors=True)."
        )


def estimate_priors(
    classes: Sequence[Any],
    out_of_fold: np.ndarray,
    y: np.ndarray,
    on_unlabeled: np.ndarray,
    x: np.ndarray,
    x_unlabeled: np.ndarray,
    weight: np.ndarray | None = None,
    seed: int = 0,
) -> Priors:
    """The estimate and its two conditions.

    Args:
      classes: `[C]`.
      out_of_fold: `[N, C]`, probabilities of labelled rows by networks that had not seen them.
      y: `[N]`, their class numbers.
      on_unlabeled: `[M, C]`, the ensemble's probabilities.
      x, x_unlabeled: the rows themselves.
      weight: `[N]`, of the labelled rows.
      seed: of the repeats that the interval comes from.
    """
    weight = np.ones(len(y)) if weight is None else weight
    n_classes, rng = out_of_fold.shape[1], np.random.default_rng([seed, 61])

    def of(rows: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        fitted = VectorScaling().fit(out_of_fold[rows], y[rows], weight[rows])
        labelled = np.bincount(y[rows], weight[rows], n_classes) + 1e-9
        return labelled / labelled.sum(), fitted.apply(on_unlabeled[others])

    n, m = len(y), len(on_unlabeled)
    labelled, calibrated = of(np.arange(n), np.arange(m))
    estimated = expectation_maximisation(calibrated, labelled)
    repeats = []
    for _ in range(REPEATS):
        of_repeat, calibrated = of(rng.integers(n, size=n), rng.integers(m, size=m))
        # A class that a repeat left out of the labels has no ratio there.
        of_repeat = np.maximum(of_repeat, 0.5 / n)
        repeats.append(np.log(expectation_maximisation(calibrated, of_repeat / of_repeat.sum())))
    # Normal in the logarithm, with Bonferroni's correction: quantiles of so few repeats would be too coarse.
    from scipy.stats import norm

    width = float(norm.isf((1 - LEVEL) / 2 / n_classes)) * np.std(repeats, axis=0)
    low, high = estimated * np.exp(-width), np.minimum(estimated * np.exp(width), 1.0)
    # Shares of few labels are uncertain themselves, and were drawn again with the rest.
    differs = bool(((labelled < low) | (labelled > high)).any())
    only_shares = differs and _told_apart_by_shares_alone(x, y, x_unlabeled, estimated / labelled, rng)
    return Priors(tuple(classes), labelled, estimated, low, high, differs, only_shares)


def expectation_maximisation(probabilities: np.ndarray, learnt: np.ndarray) -> np.ndarray:
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


def _told_apart_by_shares_alone(
    x: np.ndarray, y: np.ndarray, x_unlabeled: np.ndarray, ratio: np.ndarray, rng: np.random.Generator
) -> bool:
    """Whether labelled rows, kept as often as their class's new share asks for, cannot be told from the others."""
    kept = rng.random(len(y)) < (ratio / ratio.max())[y]
    if kept.sum() < FEWEST_ROWS:
        return False
    shift = two_sample_test(x[kept], x_unlabeled)
    return shift is not None and not shift.differs
