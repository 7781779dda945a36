"""Out-of-fold losses of a search, and the paired comparisons made with them."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from nu_ensembles.tuning.folds import Fold

# A candidate is dropped when its loss is so many paired standard errors above its own best (it overfits: later
# steps will not be chosen), or above the best of all from the middle of the run on.
PAST_ITS_BEST = 2.0
BEATEN = 3.0


def paired_difference(losses: np.ndarray, reference: np.ndarray, weight: np.ndarray) -> tuple[float, float]:
    """Weighted mean of `losses - reference` over samples `[N]`, and its standard error."""
    weight = weight / weight.sum()
    difference = losses - reference
    mean = float(np.sum(weight * difference))
    # sum w² (d - mean)², with the small-sample factor n/(n-1): for equal weights the usual s²/n.
    n = max(len(difference), 2)
    variance = float(np.sum(np.square(weight * (difference - mean)))) * n / (n - 1)
    return mean, variance**0.5


@dataclasses.dataclass(eq=False)
class OutOfFold:
    """Losses of every candidate at every stop on samples that it was not trained on.

    betas: `[P]`; steps: `[S]`.
    losses: `[P, S, N]`, -log p of the true class, mean over repeats; nan where nothing was measured.
    probabilities: `[P, N, C]` at the candidate's best stop so far (mean over repeats).
    rows: `[N]`, which rows were held out; codes, weight: `[N]`, of those rows.
    fold_of: `[N]`, the fold of the first repeat that held the row out.
    """

    betas: np.ndarray
    steps: np.ndarray
    losses: np.ndarray
    probabilities: np.ndarray
    rows: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    fold_of: np.ndarray
    folds: Sequence[Fold]

    @classmethod
    def empty(
        cls,
        betas: np.ndarray,
        steps: np.ndarray,
        codes: np.ndarray,
        weight: np.ndarray,
        folds: Sequence[Fold],
        n_classes: int,
    ) -> OutOfFold:
        rows = np.unique(np.concatenate([fold.held_out for fold in folds]))
        fold_of = np.full(len(rows), -1)
        for number, fold in reversed(list(enumerate(folds))):
            fold_of[np.searchsorted(rows, fold.held_out)] = number
        return cls(
            betas,
            steps,
            np.full((len(betas), len(steps), len(rows)), np.nan),
            np.full((len(betas), len(rows), n_classes), np.nan),
            rows,
            codes[rows],
            weight[rows],
            fold_of,
            folds,
        )

    @property
    def n_classes(self) -> int:
        return self.probabilities.shape[-1]

    def add(self, candidate: int, stop: int, by_fold: np.ndarray) -> None:
        """Takes the probabilities `[folds, V, C]` of a candidate at a stop; V is padded beyond a fold's own rows."""
        n = len(self.rows)
        losses, probabilities, times = np.zeros(n), np.zeros((n, self.n_classes)), np.zeros(n)
        for fold, predicted in zip(self.folds, by_fold, strict=True):
            where = np.searchsorted(self.rows, fold.held_out)
            predicted = predicted[: len(where)].astype(np.float64)
            of_label = predicted[np.arange(len(where)), self.codes[where]]
            losses[where] -= np.log(np.maximum(of_label, np.finfo(np.float32).tiny))
            probabilities[where] += predicted
            times[where] += 1
        self.losses[candidate, stop] = losses / times
        if stop == int(np.nanargmin(self.mean_nll()[candidate])):
            self.probabilities[candidate] = probabilities / times[:, None]

    def mean_nll(self) -> np.ndarray:
        """`[P, S]`, nan where nothing was measured."""
        return np.sum(self.losses * self.weight, axis=-1) / self.weight.sum()

    @property
    def best_beta(self) -> float:
        nll = self.mean_nll()
        return float(self.betas[np.unravel_index(np.nanargmin(nll), nll.shape)[0]])

    def best_losses(self) -> np.ndarray:
        """Losses `[N]` of the best candidate at its best stop."""
        nll = self.mean_nll()
        return self.losses[np.unravel_index(np.nanargmin(nll), nll.shape)]

    def is_beaten(self, candidate: int, stop: int, rivals: OutOfFold | None = None) -> bool:
        """Whether going on with a candidate after a stop is pointless."""
        own = self.mean_nll()[candidate]
        at_best = self.losses[candidate, np.nanargmin(own)]
        above, error = paired_difference(self.losses[candidate, stop], at_best, self.weight)
        if above > PAST_ITS_BEST * error:
            return True
        if stop < len(self.steps) // 2:
            return False
        leader = min((each for each in (self, rivals) if each is not None), key=lambda o: np.nanmin(o.mean_nll()))
        above, error = paired_difference(at_best, leader.best_losses(), self.weight)
        return above > BEATEN * error

    def joined(self, other: OutOfFold) -> OutOfFold:
        """Both sets of candidates, in ascending order of beta."""
        betas = np.concatenate([self.betas, other.betas])
        order = np.argsort(betas)
        return dataclasses.replace(
            self,
            betas=betas[order],
            losses=np.concatenate([self.losses, other.losses])[order],
            probabilities=np.concatenate([self.probabilities, other.probabilities])[order],
        )
