"""Which beta and step a search takes, and what that gains over the reference.

The rule takes the smallest beta within some paired standard errors of the best, each at its own best step. A gain is
claimed only if it shows on rows that had no part in choosing: every fold is scored with what the rule takes on the
other folds, against the reference stopped where the other folds stop it. Without this the best of many candidates
looks better than it is, however equal they are.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from nu_ensembles.methods import AnyMethod
from nu_ensembles.metrics.paired import Gain, paired_difference
from nu_ensembles.tuning.scores import OutOfFold


def smallest_within(losses: np.ndarray, weight: np.ndarray, tolerance: float) -> tuple[int, int]:
    """(candidate, stop) of the smallest beta within `tolerance` paired standard errors of the best.

    Args:
      losses: `[P, S, N]` in ascending order of beta; nan where nothing was measured.
      weight: `[N]`.
    """
    nll = np.sum(losses * weight, axis=-1)
    at_best = losses[np.unravel_index(np.nanargmin(nll), nll.shape)]
    stops = np.nanargmin(nll, axis=1)
    for candidate, stop in enumerate(stops.tolist()):
        difference, error = paired_difference(losses[candidate, stop], at_best, weight)
        if difference <= tolerance * error:
            return candidate, stop
    raise AssertionError("the best candidate is always within reach of itself")


def parts_of(found: OutOfFold) -> np.ndarray:
    """`[N]`, the part of each row where rows are judged by what the other parts chose: its fold.

    A validation set, which is one fold, is parted in two.
    """
    one_fold = len(np.unique(found.fold_of)) == 1
    return np.arange(len(found.rows)) % 2 if one_fold else found.fold_of


def gain_of_the_rule(found: OutOfFold, tolerance: float) -> Gain:
    """What the rule gains over the smallest beta (0: the standard ensemble), both chosen on the other folds."""
    part_of = parts_of(found)
    taken, reference = np.empty(len(part_of)), np.empty(len(part_of))
    for part in np.unique(part_of):
        here = part_of == part
        others = ~here if (~here).any() else here  # a single row has no others, and claims nothing
        losses, weight = found.losses[..., others], found.weight[others]
        candidate, stop = smallest_within(losses, weight, tolerance)
        taken[here] = found.losses[candidate, stop, here]
        reference[here] = found.losses[0, np.nanargmin(np.sum(losses[0] * weight, axis=-1)), here]
    return Gain.of(taken, reference, found.weight)


@dataclasses.dataclass(frozen=True, eq=False)
class SearchResult:
    """What was tried, and what the rule took.

    out_of_fold: losses of every candidate at every stop, and probabilities at each candidate's best one.
    chosen, best: (candidate, stop) that was taken, and that of the lowest NLL.
    tolerance: of the rule.
    more_rows: how many times as many rows the final training has as that of a fold.
    """

    out_of_fold: OutOfFold
    chosen: tuple[int, int]
    best: tuple[int, int]
    tolerance: float
    more_rows: float = 1.0

    @property
    def betas(self) -> np.ndarray:
        """`[P]`, ascending."""
        return self.out_of_fold.betas

    @property
    def steps(self) -> np.ndarray:
        """int `[S]`: the stops, in steps of the final training.

        That makes as many passes over its rows as the networks of a fold had made over theirs (`out_of_fold.steps`),
        but no more steps than were tried. With five folds it is a quarter more: more rows are overfitted later. On
        small tables that lowers the test NLL of standard ensembles by 1 % (`benchmarks/when_to_stop.py`).
        """
        tried = self.out_of_fold.steps
        return np.minimum(np.rint(self.more_rows * tried).astype(int), tried[-1])

    @property
    def nll(self) -> np.ndarray:
        """Mean out-of-fold NLL `[P, S]`, nan where a candidate had been dropped."""
        return self.out_of_fold.mean_nll()

    def method_of(self, method: AnyMethod) -> AnyMethod:
        """The method that was chosen, of those that differ from this one in beta; a single candidate was itself."""
        if len(self.betas) == 1:
            return method
        chosen: Any = dataclasses.replace(method, beta=self.beta)  # pyright: ignore[reportArgumentType, reportCallIssue]
        return chosen.effective()

    @property
    def beta(self) -> float:
        return float(self.betas[self.chosen[0]])

    @property
    def n_steps(self) -> int:
        return int(self.steps[self.chosen[1]])

    @property
    def standard_steps(self) -> int:
        """Where the candidate of the smallest beta (the standard ensemble, if 0 was tried) is best: early stopping."""
        return int(self.steps[np.nanargmin(self.nll[0])])


def choose(found: OutOfFold, tolerance: float, more_rows: float = 1.0) -> SearchResult:
    """Applies the rule; the reference (beta = 0) is taken unless the gain over it is clear.

    Args:
      more_rows: see `SearchResult`.
    """
    nll = found.mean_nll()
    best = np.unravel_index(np.nanargmin(nll), nll.shape)
    candidate, stop = smallest_within(found.losses, found.weight, tolerance)
    if found.betas[0] == 0 < candidate:
        gain = gain_of_the_rule(found, tolerance)
        if not (gain.is_clear and gain.relative < 0):
            candidate, stop = 0, int(np.nanargmin(nll[0]))
    return SearchResult(found, (candidate, stop), (int(best[0]), int(best[1])), tolerance, more_rows)
