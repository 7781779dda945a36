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

    def n_measured(self, candidate: int) -> int:
        """At how many stops, from the first on, a candidate was measured."""
        return int(np.isfinite(self.mean_nll()[candidate]).sum())

    def worth_going_on(self, candidates: Sequence[int], stop: int, rivals: OutOfFold | None = None) -> list[int]:
        """Those of the candidates, all measured at a stop, that are trained further.

        The first candidate is the reference. It stays while any other does, however it looks: what is compared with
        it has been measured at the same steps.
        """
        others = [c for c in candidates if (c != 0 or rivals is not None) and not self.is_beaten(c, stop, rivals)]
        if 0 in candidates and rivals is None and (others or not self._is_past_its_best(0, stop)):
            return [0, *others]
        return others

    def is_beaten(self, candidate: int, stop: int, rivals: OutOfFold | None = None) -> bool:
        """Whether going on with a candidate after a stop is pointless."""
        if self._is_past_its_best(candidate, stop):
            return True
        if stop < len(self.steps) // 2:
            return False
        at_best = self.losses[candidate, np.nanargmin(self.mean_nll()[candidate])]
        leader = min((each for each in (self, rivals) if each is not None), key=lambda o: np.nanmin(o.mean_nll()))
        above, error = paired_difference(at_best, leader.best_losses(), self.weight)
        if above <= BEATEN * error:
            return False
        fall, leaders_fall = (
            self._fall(candidate, stop),
            leader._fall(leader.betas.tolist().index(leader.best_beta), stop),
        )
        if fall > 0 and fall >= leaders_fall:
            return False
        # Losses fall ever more slowly along log-spaced stops: this is the lowest that it can get.
        return above - BEATEN * error > fall * (len(self.steps) - 1 - stop)

    def _is_past_its_best(self, candidate: int, stop: int) -> bool:
        """Whether a candidate's loss is clearly above what it was, and not on its way back."""
        at_best = self.losses[candidate, np.nanargmin(self.mean_nll()[candidate])]
        above, error = paired_difference(self.losses[candidate, stop], at_best, self.weight)
        return above > PAST_ITS_BEST * error and self._fall(candidate, stop) <= 0

    def _fall(self, candidate: int, stop: int) -> float:
        """By how much a candidate's NLL fell since the stop before; 0 if it was not measured at both."""
        nll = self.mean_nll()[candidate]
        return float(np.nan_to_num(nll[stop - 1] - nll[stop])) if stop else 0.0

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
