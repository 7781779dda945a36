"""Out-of-fold losses of a search."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from nu_ensembles.metrics.paired import paired_difference
from nu_ensembles.tuning.folds import Fold, HeldOut

# A candidate is dropped when its loss is so many paired standard errors above its own best and still rises (it
# overfits: later steps will not be chosen), or from the middle of the run on so many above the best of all, if it
# falls so slowly that it cannot catch up.
PAST_ITS_BEST = 2.0
BEATEN = 3.0
# A probe promises something if its best is so many paired standard errors, and by this share of the NLL, below the
# reference's. What is claimed in the end needs as many, on rows that had no part in choosing.
AHEAD = 2.0
WORTH_A_LOOK = 0.0025
ALIKE = 0.01


@dataclasses.dataclass(eq=False)
class OutOfFold:
    """Losses of every candidate at every stop on samples that it was not trained on.

    betas: `[P]`; steps: `[S]`.
    losses: `[P, S, N]`, -log p of the true class, mean over repeats; nan where nothing was measured.
    probabilities: `[P, N, C]` at the candidate's best stop so far (mean over repeats).
    rows: `[N]`, which rows were held out; y, weight: `[N]`, of those rows.
    fold_of: `[N]`, the fold of the first repeat that held the row out.
    """

    betas: np.ndarray
    steps: np.ndarray
    losses: np.ndarray
    probabilities: np.ndarray
    rows: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    fold_of: np.ndarray
    folds: Sequence[Fold]

    @classmethod
    def empty(
        cls,
        betas: np.ndarray,
        steps: np.ndarray,
        held_out: HeldOut,
        n_classes: int,
    ) -> OutOfFold:
        folds = held_out.folds
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
            held_out.rows.y[rows],
            held_out.rows.weight[rows],
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
            of_label = predicted[np.arange(len(where)), self.y[where]]
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

    def best_stop(self, candidate: int) -> int:
        """The number of the stop at which a candidate's NLL was lowest so far."""
        return int(np.nanargmin(self.mean_nll()[candidate]))

    def is_measured(self, candidate: int) -> bool:
        """Whether a candidate was tried."""
        return bool(np.isfinite(self.losses[candidate]).any())

    @property
    def tried_betas(self) -> list[float]:
        """Those that were measured, ascending."""
        return [float(beta) for number, beta in enumerate(self.betas) if self.is_measured(number)]

    def of_those_measured(self) -> OutOfFold:
        """The same without candidates that were not tried."""
        tried = [number for number in range(len(self.betas)) if self.is_measured(number)]
        return dataclasses.replace(
            self, betas=self.betas[tried], losses=self.losses[tried], probabilities=self.probabilities[tried]
        )

    # What is seen on the way

    def is_promising(self, candidate: int, reference: int) -> bool:
        """Whether a candidate's best is ahead of the reference's by more than noise may easily make it."""
        above, error = self._relative_difference(candidate, reference)
        return above < -AHEAD * error and above < -WORTH_A_LOOK

    def is_alike(self, candidate: int, reference: int) -> bool:
        """Whether a candidate's best differs from the reference's by next to nothing, also in its paired error."""
        above, error = self._relative_difference(candidate, reference)
        return abs(above) + error < ALIKE

    def _relative_difference(self, candidate: int, reference: int) -> tuple[float, float]:
        """NLL of a candidate above the reference's, each at its best, and the paired error; shares of the latter's."""
        at_best, others = (self.losses[each, self.best_stop(each)] for each in (candidate, reference))
        above, error = paired_difference(at_best, others, self.weight)
        level = max(float(np.sum(others * self.weight) / self.weight.sum()), float(np.finfo(np.float32).tiny))
        return above / level, error / level

    def is_beaten(self, candidate: int, stop: int) -> bool:
        """Whether going on with a candidate, measured at a stop, is pointless."""
        if self.is_past_its_best(candidate, stop):
            return True
        if stop < len(self.steps) // 2:
            return False
        # Others may have been measured further on; what they came to there says nothing of a candidate that is here.
        nll = self.mean_nll()[:, : stop + 1]
        leader, its_best = np.unravel_index(np.nanargmin(nll), nll.shape)
        at_best = self.losses[candidate, self.best_stop(candidate)]
        above, error = paired_difference(at_best, self.losses[leader, its_best], self.weight)
        if above <= BEATEN * error:
            return False
        fall = self._fall(candidate, stop)
        if fall > 0 and fall >= self._fall(int(leader), stop):
            return False  # it still falls as fast as the leader
        # Losses fall ever more slowly along log-spaced stops: this is the lowest that it can get.
        return above - BEATEN * error > fall * (len(self.steps) - 1 - stop)

    def is_past_its_best(self, candidate: int, stop: int) -> bool:
        """Whether a candidate's loss is clearly above what it was, and not on its way back."""
        at_best = self.losses[candidate, self.best_stop(candidate)]
        above, error = paired_difference(self.losses[candidate, stop], at_best, self.weight)
        return above > PAST_ITS_BEST * error and not self.falls(candidate, stop)

    def falls(self, candidate: int, stop: int) -> bool:
        """Whether a candidate's NLL is lower at a stop than at the one before."""
        return self._fall(candidate, stop) > 0

    def _fall(self, candidate: int, stop: int) -> float:
        """By how much a candidate's NLL fell since the stop before; 0 if it was not measured at both."""
        nll = self.mean_nll()[candidate]
        return float(np.nan_to_num(nll[stop - 1] - nll[stop])) if stop else 0.0
