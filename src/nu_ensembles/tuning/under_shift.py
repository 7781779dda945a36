"""The search where unlabelled rows come from elsewhere: candidates also predict these rows, and `deployment` decides.

Members, folds and random labels are those of the usual search. The standard ensemble goes first: soon after the step at
which its out-of-fold NLL is lowest no other candidate is trained any further, and of these there are two at most.
Beside the folds' members a few are trained on all labels, which predict the unlabelled rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import cached_property

import jax
import numpy as np

from nu_ensembles.deployment.evidence import ShiftEvidence
from nu_ensembles.deployment.opinions import nearest_labels, opinions
from nu_ensembles.deployment.rule import LIMITS, Decision, decide, next_beta
from nu_ensembles.deployment.shift import Shift, comparable
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
    decision = decide(_evidence(found, on_unlabeled, trials.nearest))
    found = found.of_those_measured()
    nll = found.mean_nll()
    best = np.unravel_index(np.nanargmin(nll), nll.shape)
    chosen = decision.candidate, decision.stop
    rest = how.tolerance, more_rows(job, folds)
    return ResultUnderShift(found, chosen, (int(best[0]), int(best[1])), *rest, shift=shift, decision=decision)


def _evidence(found: OutOfFold, on_unlabeled: np.ndarray, nearest: np.ndarray) -> ShiftEvidence:
    """What the candidates that were trained did.

    Args:
      on_unlabeled: `[P, M, C]`, of all.
      nearest: `[M]`, classes of the nearest labelled rows.
    """
    tried = [number for number in range(len(found.betas)) if found.is_measured(number)]
    nll, of_tried = found.mean_nll()[tried], on_unlabeled[tried].astype(np.float64)
    of_standard = opinions(of_tried[0], found.probabilities[0], found.y, nearest)
    return ShiftEvidence(found.betas[tried], found.steps, nll, of_tried, of_standard)


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
        self.betas = (0.0, *sorted(LIMITS))
        self.candidates: list[Method] = [_candidate(job.method, beta).effective() for beta in self.betas]
        u = job.rows.x_unlabeled
        assert u is not None, "without unlabelled rows there is no shift"
        self.drawn = np.sort(np.random.default_rng(0).permutation(len(u))[:MOST_UNLABELED])
        self.predicted = np.concatenate([self.held_out.rows.x, u[self.drawn]])
        self.n_on_all = min(MEMBERS_ON_ALL, max(2, len(job.members)))
        self.n_lanes = len(self.held_out.folds) * n_members + self.n_on_all

    def empty(self) -> OutOfFold:
        return OutOfFold.empty(np.array(self.betas), self.stops, self.held_out, self.n_classes)

    @cached_property
    def nearest(self) -> np.ndarray:
        """`[M]`, classes of the labelled rows that are nearest to the unlabelled ones."""
        problem = self.job.problem
        assert problem.x_unlabeled is not None, "without unlabelled rows there is no shift"
        x, u = comparable(problem, problem.x), comparable(problem, problem.x_unlabeled[self.drawn])
        return nearest_labels(x, problem.y, u)

    @cached_property
    def measured(self) -> dict[str, np.ndarray]:
        """Losses `[P, S, N]`, nan where not measured; probabilities `[P, N, C]`, and on unlabelled rows `[P, M, C]`."""
        found, n_unlabeled = self.empty(), len(self.predicted) - len(self.held_out.rows.x)
        on_u = np.full((len(self.betas), n_unlabeled, self.n_classes), np.nan)

        def train(candidate: int, stops: np.ndarray) -> None:
            one, at_stops = self._trained(self.candidates[candidate], stops, until_it_rises=candidate == 0)
            found.losses[candidate, : len(stops)] = one.losses[0]
            found.probabilities[candidate] = one.probabilities[0]
            on_u[candidate] = at_stops[found.best_stop(0)]

        with self.rounds.watched():
            train(0, self.stops)
            n_stops = min(found.best_stop(0) + LATER_STOPS + 1, int(np.isfinite(found.mean_nll()[0]).sum()))
            while (beta := next_beta(_evidence(found, on_u, self.nearest))) is not None:
                train(self.betas.index(beta), self.stops[:n_stops])
        return {LOSSES: found.losses, PROBABILITIES: found.probabilities, ON_UNLABELED: on_u}

    def _trained(self, method: Method, stops: np.ndarray, until_it_rises: bool = False) -> tuple[OutOfFold, np.ndarray]:
        """What a candidate predicts out of fold, and members on all labels on the unlabelled rows `[S, M, C]`."""
        job, folds = self.job, self.held_out.folds
        sets = []
        for number, fold in enumerate(folds):
            key = jax.random.fold_in(job.key, number)
            sets.append(MemberSet(key, range(self.n_members), method, rows=fold.train, labels_key=job.key))
        sets.append(MemberSet(job.key, range(self.n_on_all), method, rows=np.arange(len(job.rows.x))))
        assembly = assemble(job.network, job.settings, self.held_out.rows, self.n_classes, sets)
        pool = LanePool(assembly, self.n_lanes, job.settings.plan)
        n = len(self.held_out.rows.x)
        found = OutOfFold.empty(np.zeros(1), stops, self.held_out, self.n_classes)
        on_u = np.full((1, len(stops), len(self.predicted) - n, self.n_classes), np.nan)
        here = self.rounds.next([method, self.n_on_all], pool, found, [0], {ON_UNLABELED: on_u})
        total = int(stops[-1]) * self.n_lanes
        with step_bar("choosing beta where rows differ", total, 0, self.verbose) as show:
            for stop, step in enumerate(stops):
                if not here.tells(stop):
                    here.put_back()
                    pool.advance(int(step), here.keeping(show))
                    by_fold, on_u[0, stop] = self._seen(pool)
                    found.add(0, stop, by_fold)
                    here.measured(stop)
                if until_it_rises and found.is_past_its_best(0, stop):
                    break
        here.ends(True)
        return found, on_u[0]

    def _seen(self, pool: LanePool) -> tuple[np.ndarray, np.ndarray]:
        """Of all lanes: held-out rows by fold `[folds, V, C]`, padded, and unlabelled rows `[M, C]`."""
        networks = jax.device_put(pool.variables(np.arange(self.n_lanes)))
        p = lane_predictions(self.job.network, self.job.settings.dtype, *networks, self.predicted)
        folds, n = self.held_out.folds, len(self.held_out.rows.x)
        of_folds = p[: -self.n_on_all].reshape(len(folds), self.n_members, *p.shape[1:]).mean(axis=1, dtype=np.float64)
        by_fold = np.zeros((len(folds), max(len(fold.held_out) for fold in folds), self.n_classes))
        for number, fold in enumerate(folds):
            by_fold[number, : len(fold.held_out)] = of_folds[number, fold.held_out]
        return by_fold, p[-self.n_on_all :, n:].mean(axis=0, dtype=np.float64)
