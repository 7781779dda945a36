"""Beta and the number of steps, chosen together by out-of-fold NLL.

Overconfidence grows with training, and so does what beta does about it: neither can be chosen without the other.
Every candidate is one trajectory per fold, scored at log-spaced steps; all share initialisations, batches and
random labels, so differences are paired. `choice.py` has the rule: never meaningfully worse than a standard ensemble
that was itself stopped at the right time. What cannot train all folds side by side is in `fold_by_fold.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import numpy as np

from nu_ensembles.checks import check_positive, check_whole
from nu_ensembles.engine.assembly import Assembly, MemberSet, assemble
from nu_ensembles.engine.pool import LanePool
from nu_ensembles.methods import AnyMethod, Method
from nu_ensembles.progress import step_bar
from nu_ensembles.training import RunFolder, TrainingJob
from nu_ensembles.tuning.choice import SearchResult, choose
from nu_ensembles.tuning.fold_by_fold import along_a_training, at_every_length
from nu_ensembles.tuning.folds import Fold, HeldOut, held_out_of
from nu_ensembles.tuning.record import kept_search
from nu_ensembles.tuning.scores import OutOfFold

# Where the grid goes on when its best value sits on the edge.
LARGER = (0.1, 0.3, 1.0)
SMALLER = (3e-5, 1e-5)
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
    """

    betas: tuple[float, ...] | None = (0.0, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
    n_members: int | None = None
    n_stops: int | None = None
    tolerance: float = 1.0
    extend: bool = True

    def __post_init__(self) -> None:
        if self.n_members is not None:
            check_whole(self.n_members, "n_members of the search")
        if self.n_stops is not None:
            check_whole(self.n_stops, "n_stops")
        for beta in self.betas or ():
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
        return kept_search(run, job, folds, how, lambda: _side_by_side(job, folds, how, stops, verbose))
    job = job.replace(members=tuple(range(how.n_members or len(job.members))))
    if not job.method.is_one_training:
        return choose(at_every_length(job, folds, how, stops, run, verbose), how.tolerance)

    def one_after_another() -> SearchResult:
        return choose(along_a_training(job, folds, stops, verbose), how.tolerance)

    return kept_search(run, job, folds, how, one_after_another)


def with_beta(method: AnyMethod, beta: float) -> Method:
    """The candidate of a beta, kept as it is at 0, so that all candidates are one program."""
    return dataclasses.replace(method, beta=beta)  # pyright: ignore[reportArgumentType, reportReturnType, reportCallIssue]


def _side_by_side(
    job: TrainingJob, folds: Sequence[Fold], how: SearchSettings, stops: np.ndarray, verbose: int
) -> SearchResult:
    assert how.n_members is not None
    trial = Trial(job, held_out_of(job, folds), stops, how.n_members)
    if how.betas is None:
        return choose(trial.run({float(getattr(job.method, "beta", 0.0)): job.method.base}, verbose), how.tolerance)
    candidates = {beta: with_beta(job.method, beta) for beta in sorted(set(how.betas))}
    found = trial.run(candidates, verbose)
    while how.extend and (more := _beyond_the_edge(found.best_beta, sorted(found.betas))) is not None:
        found = found.joined(trial.run({more: with_beta(job.method, more)}, verbose, rivals=found))
    return choose(found, how.tolerance)


def _beyond_the_edge(best: float, betas: list[float]) -> float | None:
    """The next beta to try when the best is the largest, or the smallest above zero; None if it is neither."""
    positive = [beta for beta in betas if beta > 0]
    if not positive:
        return None
    if best == positive[-1]:
        return next((beta for beta in LARGER if beta > best), None)
    if best == positive[0]:
        return next((beta for beta in SMALLER if beta < best), None)
    return None


class Trial:
    """The folds of a search, for any candidates.

    A fold's member k is the same network whatever the candidate: common random numbers.
    """

    def __init__(self, job: TrainingJob, held_out: HeldOut, stops: np.ndarray, n_members: int) -> None:
        self.job, self.held_out, self.stops, self.n_members = job, held_out, stops, n_members
        self.lanes_a_set = len(held_out.folds) * n_members
        self.n_classes = len(job.problem.classes)

    def assembled(self, methods: Sequence[Method]) -> Assembly:
        """A lane for each candidate, fold and member, in this order."""
        key, members = self.job.key, range(self.n_members)
        keys = [jax.random.fold_in(key, number) for number in range(len(self.held_out.folds))]
        sets = [
            MemberSet(keys[number], members, method, rows=fold.train, labels_key=key)
            for method in methods
            for number, fold in enumerate(self.held_out.folds)
        ]
        return assemble(self.job.network, self.job.settings, self.held_out.rows, self.n_classes, sets)

    def run(self, candidates: dict[float, Method], verbose: int, rivals: OutOfFold | None = None) -> OutOfFold:
        """Trajectories of all candidates, scored at every stop; those that promise nothing are dropped.

        The smallest beta of the first round is what all others are compared with: it is measured wherever one of them
        is. A later round (`rivals` are the first one's) goes no further than it did.
        """
        found = OutOfFold.empty(np.array(list(candidates)), self.stops, self.held_out, self.n_classes)
        remaining = list(range(len(candidates)))
        lanes = self._lanes_of(remaining)
        assembly = self.assembled(list(candidates.values()))
        held_out = [fold.held_out for fold in self.held_out.folds for _ in range(self.n_members)]
        pool = LanePool(assembly, self.lanes_a_set, self.job.settings.plan, predicted=held_out)
        stops = self.stops if rivals is None else self.stops[: rivals.n_measured(0)]
        total = int(stops[-1]) * self.lanes_a_set * len(candidates)
        with step_bar(f"choosing beta and steps ({len(candidates)} candidates)", total, 0, verbose) as show:
            for stop, step in enumerate(stops):
                pool.keep(lanes)
                pool.advance(int(step), show)
                for candidate in remaining:
                    members = pool.probabilities(self._lanes_of([candidate]))
                    by_fold = members.reshape(len(self.held_out.folds), self.n_members, -1, self.n_classes)
                    found.add(candidate, stop, by_fold.mean(axis=1))
                remaining = found.worth_going_on(remaining, stop, rivals)
                if not remaining:
                    break
                lanes = self._lanes_of(remaining)
        return found

    def _lanes_of(self, candidates: Sequence[int]) -> np.ndarray:
        return np.concatenate([each * self.lanes_a_set + np.arange(self.lanes_a_set) for each in candidates])
