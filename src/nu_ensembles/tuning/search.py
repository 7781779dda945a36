"""Beta and the number of steps, chosen together by out-of-fold NLL.

Overconfidence grows with training, and so does what beta does about it: neither can be chosen without the other.
Every candidate is one trajectory per fold, scored at log-spaced steps; all share initialisations, batches and
random labels, so differences are paired. `stages.py` says what is tried when, `choice.py` has the rule: never
meaningfully worse than a standard ensemble that was itself stopped at the right time. What cannot train all folds side
by side is in `fold_by_fold.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import numpy as np

from nu_ensembles.checks import check_positive, check_whole
from nu_ensembles.methods import AnyMethod, Method
from nu_ensembles.progress import step_bar
from nu_ensembles.training import RunFolder, TrainingJob
from nu_ensembles.tuning.choice import SearchResult, choose
from nu_ensembles.tuning.fold_by_fold import along_a_training, at_every_length
from nu_ensembles.tuning.folds import Fold, held_out_of, more_rows
from nu_ensembles.tuning.record import kept_search, search_fingerprint
from nu_ensembles.tuning.rounds import SearchRounds
from nu_ensembles.tuning.stages import staged
from nu_ensembles.tuning.trial import Trial

# However long the training may get, its first score is no later than this: few labels are overfitted soon.
EARLIEST_STOP = 50
# Lengths that are tried of a method of several trainings, which has to be carried out for each.
PROCEDURE_STOPS = 5
# Members a fold, where they train independently.
FEW_MEMBERS = 3
USUAL_STOPS = 12


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """How the search is done.

    Attributes:
      betas: candidates, by the weight of their unlabelled loss; with 0 among them the standard ensemble is the
        reference. None for the method as it is, the one candidate.
      n_members: lanes per fold, whose mean probability is scored; None for three, or for as many as the job's where
        members meet or are chosen: these are worth what they are only when all are there.
      n_stops: at how many log-spaced steps a trajectory is scored; None for twelve, or for five lengths of a method of
        several trainings.
      tolerance: the smallest beta within so many paired standard errors of the best is taken, if its gain is clear.
      extend: whether the grid goes on when the best beta is its largest or smallest.
      probes: those of the betas that are tried first, one after another; the others only once one of these promises
        something. Without any, all are tried.
    """

    betas: tuple[float, ...] | None = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    n_members: int | None = None
    n_stops: int | None = None
    tolerance: float = 1.0
    extend: bool = True
    probes: tuple[float, ...] = (1e-2, 1e-3)

    def __post_init__(self) -> None:
        if self.n_members is not None:
            check_whole(self.n_members, "n_members of the search")
        if self.n_stops is not None:
            check_whole(self.n_stops, "n_stops")
        for beta in (*(self.betas or ()), *self.probes):
            check_positive(beta, "each of betas", zero_allowed=True)
        check_positive(self.tolerance, "tolerance", zero_allowed=True)

    def for_job(self, job: TrainingJob) -> SearchSettings:
        """The settings with nothing left open."""
        n_members = FEW_MEMBERS if job.method.is_independent else len(job.members)
        n_stops = USUAL_STOPS if job.method.is_one_training else PROCEDURE_STOPS
        # Without unlabelled rows every beta is the standard ensemble: only the length is left to choose.
        betas = self.betas if job.method.uses_unlabeled else None
        return dataclasses.replace(
            self, betas=betas, n_members=self.n_members or n_members, n_stops=self.n_stops or n_stops
        )

    def stops(self, max_steps: int) -> np.ndarray:
        """Log-spaced steps up to the longest training; a single stop is the last step."""
        if self.n_stops == 1:
            return np.array([max_steps])
        first = max(1, min(max_steps // 64, EARLIEST_STOP))
        return np.unique(np.geomspace(first, max_steps, self.n_stops or USUAL_STOPS).round().astype(int))


def search(
    job: TrainingJob,
    folds: Sequence[Fold],
    how: SearchSettings | None = None,
    *,
    run: RunFolder | None = None,
    verbose: int = 0,
) -> SearchResult:
    """Tries all candidates at all steps up to the job's own.

    Args:
      folds: of the labelled rows; ignored if the job has validation rows, which take their place.
      run: keeps what was found, so that a killed run does not search again.
    """
    how = (how or SearchSettings()).for_job(job)
    stops = how.stops(job.n_steps)
    if job.method.is_independent:
        if run is None:
            return _side_by_side(job, folds, how, stops, verbose)
        rounds = SearchRounds(run, lambda: search_fingerprint(job, folds, how))
        result = kept_search(run, job, folds, how, lambda: _side_by_side(job, folds, how, stops, verbose, rounds))
        rounds.clear()
        return result
    job = job.replace(members=tuple(range(how.n_members or len(job.members))))
    if not job.method.is_one_training:
        return choose(at_every_length(job, folds, how, stops, run, verbose), how.tolerance)

    def one_after_another() -> SearchResult:
        return choose(along_a_training(job, folds, how, stops, run, verbose), how.tolerance)

    return kept_search(run, job, folds, how, one_after_another)


def with_beta(method: AnyMethod, beta: float) -> Method:
    """The candidate of a beta; at 0 the standard ensemble, which is what would be trained in the end."""
    changed: Any = dataclasses.replace(method, beta=beta)  # pyright: ignore[reportArgumentType, reportCallIssue]
    return changed.effective()


def _side_by_side(
    job: TrainingJob,
    folds: Sequence[Fold],
    how: SearchSettings,
    stops: np.ndarray,
    verbose: int,
    rounds: SearchRounds | None = None,
) -> SearchResult:
    assert how.n_members is not None
    trial = Trial(job, held_out_of(job, folds), stops, how.n_members, rounds)
    total = int(stops[-1]) * trial.lanes_a_set * len(how.betas or (0.0,))
    bar = step_bar("choosing beta and steps" if how.betas else "early stopping", total, 0, verbose)
    with nullcontext() if rounds is None else rounds.watched():
        if how.betas is None:
            as_it_is = float(getattr(job.method, "beta", 0.0))
            found = staged(trial, [as_it_is], (), False, lambda _: job.method.base, bar)
        else:
            method_of = partial(with_beta, job.method)
            found = staged(trial, how.betas, how.probes, how.extend, method_of, bar)
    return choose(found, how.tolerance, more_rows(job, folds))
