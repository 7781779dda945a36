"""Trials of one program side by side, from stop to stop: what each of them comes to.

A trial is a lane for each fold and member. All trials share initialisations, batches and random labels (common random
numbers), and are scored at every stop on rows that they did not train on. Where ensembles share a program (on a GPU),
all trials are one; on a CPU every trial is a program of its own, the same compiled one, and as many threads as there
are cores take one trial after another (`benchmarks/tune_side_by_side.py` measures what that gains).
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor, as_completed
from typing import Any

import jax
import numpy as np

from nu_ensembles.backend import with_settings_of_here
from nu_ensembles.engine.assembly import MemberSet, assemble
from nu_ensembles.engine.fast.shared_draws import SharedDraws
from nu_ensembles.engine.fast.threads import n_cores
from nu_ensembles.engine.pool import LanePool
from nu_ensembles.engine.run import Run
from nu_ensembles.errors import InputError
from nu_ensembles.searches.objectives import scores
from nu_ensembles.searches.setting import SearchSetting
from nu_ensembles.training import TrainingJob
from nu_ensembles.tuning.scores import OutOfFold

# (lane steps that were done, loss) -> None
Report = Callable[[int, float], None]


@dataclasses.dataclass(frozen=True, eq=False)
class Measured:
    """What a trial came to.

    Attributes:
      scores: float64 `[stops, objectives, 1 + P]`, each objective on all scored rows and on each part of them; nan from
        where the trial had ended.
      reason: why there is nothing, or "".
    """

    scores: np.ndarray
    reason: str = ""


def run_heat(
    setting: SearchSetting,
    trials: Mapping[int, Mapping[str, Any]],
    report: Report = lambda n, loss: None,
    shared: SharedDraws | None = None,
) -> Generator[tuple[int, Measured]]:
    """Trains and measures trials, by their numbers; each is told of when it has ended.

    Args:
      trials: parameters of each; of one program.
      report: is told of steps, and may raise to end it all.
      shared: what was drawn for earlier heats of the search.
    """
    jobs: dict[int, TrainingJob] = {}
    for number, parameters in trials.items():
        try:
            jobs[number] = setting.job(parameters)
        except InputError as error:
            yield number, Measured(np.zeros((0, len(setting.objectives), 1)), str(error))
    if jobs:
        yield from _Heat(setting, jobs, shared or SharedDraws()).run(report)


class _Heat:
    """Trials under way."""

    def __init__(self, setting: SearchSetting, jobs: Mapping[int, TrainingJob], shared: SharedDraws) -> None:
        self.setting, self.numbers, self.jobs = setting, list(jobs), list(jobs.values())
        job = self.jobs[0]
        self.held_out = setting.held_out(job)
        self.folds = self.held_out.folds
        self.lanes_a_trial = len(self.folds) * setting.n_members
        n_classes = len(setting.problem.classes)
        zeros = np.zeros(len(jobs))
        self.found = OutOfFold.empty(zeros, setting.stops, self.held_out, n_classes)
        self.parts = setting.parts(self.found)
        shape = len(setting.stops), len(setting.objectives), 2 + int(self.parts.max())
        self.scores = [np.full(shape, np.nan) for _ in jobs]
        self.failed: dict[int, int] = {}
        keys = [jax.random.fold_in(job.key, number) for number in range(len(self.folds))]
        sets = [
            MemberSet(
                keys[number],
                range(setting.n_members),
                each.method.base,
                rows=fold.train,
                labels_key=job.key,
                learning_rates=[each.settings.learning_rate] * setting.n_members,
                weight_decays=[each.settings.weight_decay] * setting.n_members,
            )
            for each in self.jobs
            for number, fold in enumerate(self.folds)
        ]
        assembly = assemble(job.network, job.settings, self.held_out.rows, n_classes, sets)
        held_out = [fold.held_out for fold in self.folds for _ in range(setting.n_members)]
        self.pool = LanePool(assembly, self.lanes_a_trial, job.settings.plan, "mark", held_out, shared)

    def run(self, report: Report) -> Generator[tuple[int, Measured]]:
        """What trials come to, as they end."""
        a_program_each = [self.pool.lanes_of([trial]).tolist() for trial in range(len(self.jobs))]
        apart = [indices.tolist() for indices, _ in self.pool.groups] == a_program_each
        if apart and not self.pool.on_host and len(self.jobs) > 1:
            yield from self._apart(report)
        else:
            yield from self._together(report)

    def _together(self, report: Report) -> Generator[tuple[int, Measured]]:
        """All trials from one stop to the next."""
        remaining, stops = list(range(len(self.jobs))), self.setting.stops
        for stop, step in enumerate(stops.tolist()):
            self.pool.keep(self.pool.lanes_of(remaining))
            self.pool.advance(step, report)
            done = [trial for trial in remaining if self._ends(trial, stop)]
            remaining = [trial for trial in remaining if trial not in done]
            report(int(stops[-1] - step) * self.lanes_a_trial * len(done), float("nan"))
            yield from ((self.numbers[trial], self._measured(trial)) for trial in done)
            if not remaining:
                break

    def _apart(self, report: Report) -> Generator[tuple[int, Measured]]:
        """Each trial from its first to its last step, in a thread; nobody waits for another at a stop."""
        over = threading.Event()
        alone = with_settings_of_here(self._alone)
        with ThreadPoolExecutor(min(len(self.jobs), n_cores())) as threads:
            trials = {threads.submit(alone, trial, report, over): trial for trial in range(len(self.jobs))}
            try:
                for ended in as_completed(trials):
                    ended.result()
                    yield self.numbers[trials[ended]], self._measured(trials[ended])
            finally:
                over.set()
                threads.shutdown(cancel_futures=True)

    def _alone(self, trial: int, report: Report, over: threading.Event) -> None:
        """Trains and measures one trial, unless all is over."""
        stops, (indices, run) = self.setting.stops, self.pool.groups[trial]

        def tell(n_steps: int, loss: float) -> None:
            if over.is_set():
                raise CancelledError
            report(n_steps, loss)

        for stop, step in enumerate(stops.tolist()):
            _advance(run, len(indices), step, tell)
            if self._ends(trial, stop):
                tell(int(stops[-1] - step) * self.lanes_a_trial, float("nan"))
                return

    def _ends(self, trial: int, stop: int) -> bool:
        """Measures a trial at a stop; whether that was its last."""
        lanes = self.pool.lanes_of([trial])
        failed = self.pool.failed_at(lanes)
        setting, n_folds = self.setting, len(self.folds)
        members = self.pool.probabilities(lanes)
        # Parameters may be finite, and so large that what they predict is not.
        if (failed >= 0).any() or not np.isfinite(members).all():
            self.failed[trial] = int(failed[failed >= 0].min(initial=setting.stops[stop]))
            return True
        by_fold = members.reshape(n_folds, setting.n_members, *members.shape[1:])
        self.found.add(trial, stop, by_fold.mean(axis=1))
        of_rows = _by_row(self.found, by_fold)
        self.scores[trial][stop] = scores(setting.objectives, of_rows, self.found.y, self.parts)
        at_the_end = stop == len(setting.stops) - 1
        # Looked at alone, so that it does not matter which trials run beside it.
        return at_the_end or (setting.drops and self.found.is_past_its_best(trial, stop))

    def _measured(self, trial: int) -> Measured:
        measured = self.scores[trial]
        if trial in self.failed and np.isnan(measured[..., 0]).all():
            rate = self.jobs[trial].settings.learning_rate
            return Measured(measured, f"diverged by step {self.failed[trial]} (learning rate {rate:g})")
        return Measured(measured)


def _advance(run: Run, n_lanes: int, step: int, tell: Report) -> None:
    """Trains lanes up to a step."""
    before = run.step

    def told(now: int, losses: np.ndarray) -> None:
        nonlocal before
        tell((now - before) * n_lanes, float(np.mean(losses)))
        before = now

    run.advance(step, told)


def _by_row(found: OutOfFold, by_fold: np.ndarray) -> np.ndarray:
    """Members' probabilities `[K, N, C]` of the scored rows, from `[F, K, V, C]`; means where rows are dealt twice."""
    n_members, n_classes = by_fold.shape[1], by_fold.shape[-1]
    total, times = np.zeros((n_members, len(found.rows), n_classes)), np.zeros(len(found.rows))
    for fold, members in zip(found.folds, by_fold, strict=True):
        where = np.searchsorted(found.rows, fold.held_out)
        total[:, where] += members[:, : len(where)].astype(np.float64)
        times[where] += 1
    return total / times[:, None]


def heats_of(programs: Mapping[int, Any], together: int) -> list[list[int]]:
    """Numbers of trials that share a program, at most so many in a heat; the lowest numbers first.

    Args:
      programs: of each trial, see `program_of`.
    """
    by_program: dict[Any, list[int]] = {}
    for number in sorted(programs):
        by_program.setdefault(programs[number], []).append(number)
    return sorted(heat for numbers in by_program.values() for heat in _cut(numbers, together))


def program_of(setting: SearchSetting, number: int, parameters: Mapping[str, Any]) -> Any:
    """What is alike for trials that can be lanes beside each other: rates and traced hyper-parameters may differ."""
    try:
        job = setting.job(parameters)
    except InputError:
        return number  # it comes to nothing, alone
    settings = dataclasses.replace(job.settings, learning_rate=1.0, weight_decay=0.0)
    return job.network, jax.tree.structure(job.method.base), settings


def _cut(numbers: Sequence[int], together: int) -> list[list[int]]:
    return [list(numbers[start : start + together]) for start in range(0, len(numbers), together)]
