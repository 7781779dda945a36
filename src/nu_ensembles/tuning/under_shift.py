"""The search where unlabelled rows come from elsewhere: candidates also predict these rows, and `deployment` decides.

Members, folds and random labels are those of the usual search. The standard ensemble goes first: beyond the step at
which its out-of-fold NLL has risen nothing is trained, and there are only two other candidates, so it costs less than
the usual search. Beside the folds' members a few are trained on all labels, which predict the unlabelled rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property

import jax
import numpy as np

from nu_ensembles.deployment.evidence import ShiftEvidence
from nu_ensembles.deployment.rule import LADDER, Decision, decide
from nu_ensembles.deployment.shift import Shift, two_sample_test
from nu_ensembles.engine.assembly import MemberSet, assemble
from nu_ensembles.engine.pool import LanePool
from nu_ensembles.engine.predict import lane_predictions
from nu_ensembles.methods import AnyMethod, Method, Nu
from nu_ensembles.progress import step_bar
from nu_ensembles.training import RunFolder, TrainingJob
from nu_ensembles.tuning.choice import SearchResult
from nu_ensembles.tuning.folds import Fold, held_out_of, more_rows
from nu_ensembles.tuning.record import search_fingerprint
from nu_ensembles.tuning.rounds import SearchRounds
from nu_ensembles.tuning.scores import OutOfFold
from nu_ensembles.tuning.search import FEW_MEMBERS, SearchSettings

# More unlabelled rows than this hardly narrow what is seen on them, and all are predicted at every stop.
MOST_UNLABELED = 500
MEMBERS_ON_ALL = 5
# The candidates are trained so many stops beyond where the standard ensemble is best.
LATER_STOPS = 2
LOSSES, PROBABILITIES, ON_UNLABELED = "losses", "probabilities", "unlabeled"


@dataclasses.dataclass(frozen=True, eq=False, kw_only=True)
class ResultUnderShift(SearchResult):
    """A search whose choice rests on the unlabelled rows, too.

    shift: the test that found that these differ.
    decision: what was chosen, and why.
    """

    shift: Shift
    decision: Decision

    def verdict(self) -> str:
        """What was chosen, on which evidence, and what that leaves open."""
        decision = self.decision
        unit = " times the labelled loss" if decision.beta else ""
        sentence = (
            f"The unlabelled rows differ from the labelled ones ({self.shift.in_words()}), so β was chosen without a "
            f"label from there: β = {decision.beta:g}{unit}, {self.n_steps} steps, because {decision.reason()}. "
        )
        if self.shift.is_disjoint:
            return sentence + "Nearly every row can be told apart, so no method can promise anything there."
        return sentence + "What that does to the NLL there only labelled rows from there can tell."

    def method_of(self, method: AnyMethod) -> AnyMethod:
        assert isinstance(method, Nu), "no other method is searched under shift"
        return _candidate(method, self.beta).effective()


def says_nothing_of_the_deployment(job: TrainingJob, shift: Shift | None) -> bool:
    """Whether unlabelled rows differ from the labelled ones, and from validation rows, if the job has any.

    Validation rows from the deployment tell more than unlabelled ones: then the usual search goes by these.
    """
    if shift is None or not shift.differs or job.rows.x_unlabeled is None:
        return False
    if job.validation is None:
        return True
    from_there = two_sample_test(job.validation.x, job.rows.x_unlabeled)
    return from_there is not None and from_there.differs


def search_under_shift(
    job: TrainingJob,
    folds: Sequence[Fold],
    how: SearchSettings,
    shift: Shift,
    *,
    run: RunFolder | None = None,
    verbose: int = 0,
) -> ResultUnderShift:
    """Trains the candidates, and lets the rule decide.

    Args:
      job: of a nu-ensemble, with unlabelled rows.
      folds: of the labelled rows; ignored if the job has validation rows, which take their place.
      shift: what the two-sample test found.
      run: keeps what was found, also on the way, so that a killed run goes on within the search.
    """
    how = how.for_job(job)
    fingerprint = "" if run is None else search_fingerprint(job, folds, how)
    rounds = SearchRounds(run, lambda: fingerprint)
    trials = _Trials(job, folds, how.stops(job.n_steps), how.n_members or FEW_MEMBERS, verbose, rounds)

    def measured(name: str) -> np.ndarray:
        if run is None:
            return trials.measured[name]
        return run.remembered(f"under-shift-{name}", fingerprint, lambda: trials.measured[name])

    # Both are asked for before anything else: each is kept by itself.
    losses, probabilities, on_unlabeled = (measured(name) for name in (LOSSES, PROBABILITIES, ON_UNLABELED))
    rounds.clear()
    found = dataclasses.replace(trials.empty(), losses=losses, probabilities=probabilities)
    nll = found.mean_nll()
    decision = decide(ShiftEvidence(found.betas, found.steps, nll, on_unlabeled.astype(np.float64)))
    best = np.unravel_index(np.nanargmin(nll), nll.shape)
    chosen = decision.candidate, decision.stop
    rest = how.tolerance, more_rows(job, folds)
    return ResultUnderShift(found, chosen, (int(best[0]), int(best[1])), *rest, shift=shift, decision=decision)


def _candidate(method: Nu, beta: float) -> Nu:
    return dataclasses.replace(method, beta=beta, weighting="labelled_loss")


class _Trials:
    """The trainings: a set of lanes for each candidate, the members of all folds and some on all labels."""

    def __init__(
        self,
        job: TrainingJob,
        folds: Sequence[Fold],
        stops: np.ndarray,
        n_members: int,
        verbose: int,
        rounds: SearchRounds,
    ) -> None:
        self.job, self.stops, self.n_members, self.verbose, self.rounds = job, stops, n_members, verbose, rounds
        self.held_out = held_out_of(job, folds)
        self.n_classes = len(job.problem.classes)
        assert isinstance(job.method, Nu), "nothing else is searched under shift"
        self.betas = (0.0, *sorted(LADDER))
        self.candidates: list[Method] = [_candidate(job.method, beta).effective() for beta in self.betas]
        u = job.rows.x_unlabeled
        assert u is not None, "without unlabelled rows there is no shift"
        drawn = np.sort(np.random.default_rng(0).permutation(len(u))[:MOST_UNLABELED])
        self.predicted = np.concatenate([self.held_out.rows.x, u[drawn]])
        self.n_on_all = min(MEMBERS_ON_ALL, max(2, len(job.members)))
        self.n_lanes = len(self.held_out.folds) * n_members + self.n_on_all

    def empty(self) -> OutOfFold:
        return OutOfFold.empty(np.array(self.betas), self.stops, self.held_out, self.n_classes)

    @cached_property
    def measured(self) -> dict[str, np.ndarray]:
        """Losses `[P, S, N]`, nan where not measured; probabilities `[P, N, C]`, and on unlabelled rows `[P, M, C]`."""
        with self.rounds.watched():
            first, on_u = self._trained(self.candidates[:1], self.stops, until_it_rises=True)
            best = int(np.nanargmin(first.mean_nll()[0]))
            n_stops = min(best + LATER_STOPS + 1, int(np.isfinite(first.mean_nll()[0]).sum()))
            others, others_on_u = self._trained(self.candidates[1:], self.stops[:n_stops])
        losses = self.empty().losses
        losses[:1, :], losses[1:, :n_stops] = first.losses, others.losses
        return {
            LOSSES: losses,
            PROBABILITIES: np.concatenate([first.probabilities, others.probabilities]),
            ON_UNLABELED: np.concatenate([each[:, best] for each in (on_u, others_on_u)]),
        }

    def _trained(
        self, candidates: Sequence[Method], stops: np.ndarray, until_it_rises: bool = False
    ) -> tuple[OutOfFold, np.ndarray]:
        """What candidates predict out of fold, and members on all labels on the unlabelled rows `[P, S, M, C]`."""
        job, folds = self.job, self.held_out.folds
        sets = []
        for method in candidates:
            for number, fold in enumerate(folds):
                key = jax.random.fold_in(job.key, number)
                sets.append(MemberSet(key, range(self.n_members), method, rows=fold.train, labels_key=job.key))
            labelled = np.arange(len(job.rows.x))
            sets.append(MemberSet(job.key, range(self.n_on_all), method, rows=labelled))
        assembly = assemble(job.network, job.settings, self.held_out.rows, self.n_classes, sets)
        pool = LanePool(assembly, self.n_lanes, job.settings.plan)
        n, numbers = len(self.held_out.rows.x), np.arange(len(candidates))
        found = OutOfFold.empty(numbers.astype(float), stops, self.held_out, self.n_classes)
        on_u = np.full((len(candidates), len(stops), len(self.predicted) - n, self.n_classes), np.nan)
        here = self.rounds.next([*candidates, self.n_on_all], pool, found, numbers.tolist(), {ON_UNLABELED: on_u})
        total = int(stops[-1]) * self.n_lanes * len(candidates)
        with step_bar(
            f"choosing beta where rows differ ({len(candidates)} candidates)", total, 0, self.verbose
        ) as show:
            for stop, step in enumerate(stops):
                if not here.tells(stop):
                    here.put_back()
                    pool.advance(int(step), here.keeping(show))
                    for number in numbers.tolist():
                        by_fold, on_u[number, stop] = self._seen(pool, number)
                        found.add(number, stop, by_fold)
                    here.measured(stop)
                if until_it_rises and found.is_past_its_best(0, stop):
                    break
        here.ends(True)
        return found, on_u

    def _seen(self, pool: LanePool, candidate: int) -> tuple[np.ndarray, np.ndarray]:
        """Of a candidate's lanes: held-out rows by fold `[folds, V, C]`, padded, and unlabelled rows `[M, C]`."""
        networks = jax.device_put(pool.variables(candidate * self.n_lanes + np.arange(self.n_lanes)))
        p = lane_predictions(self.job.network, self.job.settings.dtype, *networks, self.predicted)
        folds, n = self.held_out.folds, len(self.held_out.rows.x)
        of_folds = p[: -self.n_on_all].reshape(len(folds), self.n_members, *p.shape[1:]).mean(axis=1, dtype=np.float64)
        by_fold = np.zeros((len(folds), max(len(fold.held_out) for fold in folds), self.n_classes))
        for number, fold in enumerate(folds):
            by_fold[number, : len(fold.held_out)] = of_folds[number, fold.held_out]
        return by_fold, p[-self.n_on_all :, n:].mean(axis=0, dtype=np.float64)
