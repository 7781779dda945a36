"""A worker of a search: generation by generation it takes trials that nobody has, and trains them.

Any number of workers may do so on one database; each ends when all trials have. Where trials run (here, in other
processes, on a cluster) is the business of a `RunHeats`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any, Protocol

from nu_ensembles.engine.fast.shared_draws import SharedDraws
from nu_ensembles.errors import InputError
from nu_ensembles.lifecycle.interrupts import Interruption, held_interrupts
from nu_ensembles.searches.draws import ParameterDraws
from nu_ensembles.searches.heat import Measured, Report, heats_of, program_of, run_heat
from nu_ensembles.searches.leases import USUAL_SECONDS
from nu_ensembles.searches.setting import SearchSetting
from nu_ensembles.searches.store import TrialStore
from nu_ensembles.searches.trial import SearchTrial

STOPPED = "Stopped; the trials that had ended are kept, and the same command goes on."
# Seconds between two looks at what others have done.
LOOK = 0.5
Parameters = Mapping[str, Any]


class RunHeats(Protocol):
    """Where trials run."""

    @property
    def n_at_once(self) -> int:
        """How many heats it runs at the same time."""
        ...

    def __call__(
        self, setting: SearchSetting, heats: Sequence[Mapping[int, Parameters]], report: Report
    ) -> Generator[tuple[int, Measured]]:
        """What trials came to, by their numbers, as they end."""
        ...


class Here:
    """Heats in this process, one after another."""

    n_at_once = 1

    def __init__(self) -> None:
        self._shared = SharedDraws()

    def __call__(
        self, setting: SearchSetting, heats: Sequence[Mapping[int, Parameters]], report: Report
    ) -> Generator[tuple[int, Measured]]:
        for heat in heats:
            yield from run_heat(setting, heat, report, self._shared)


class TimeLimit:
    """Whether another heat ends in time, by the slowest so far.

    Args:
      seconds: None for no limit.
    """

    def __init__(self, seconds: float | None) -> None:
        self.started, self.seconds = time.monotonic(), seconds
        self.slowest = 0.0

    def allows_another(self) -> bool:
        return self.seconds is None or time.monotonic() - self.started + self.slowest <= self.seconds

    def learn(self, seconds: float) -> None:
        self.slowest = max(self.slowest, seconds)


@dataclasses.dataclass(frozen=True)
class HowToSearch:
    """How a search is carried out, which decides nothing of what it comes to; see `tune`."""

    n_trials: int
    storage: str | None = None
    name: str = "nu-ensembles"
    time_limit: float | None = None
    together: int = 8
    lease_seconds: float = USUAL_SECONDS
    run_heats: RunHeats = dataclasses.field(default_factory=Here)
    on_trial: Callable[[SearchTrial], None] = lambda trial: None
    verbose: int = 0


class Worker:
    """One of those that work on a search.

    Args:
      report: is told of steps.
    """

    def __init__(
        self, setting: SearchSetting, draws: ParameterDraws, store: TrialStore, how: HowToSearch, report: Report
    ) -> None:
        self.setting, self.draws, self.store, self.how, self.report = setting, draws, store, how, report
        self._limit, self._told = TimeLimit(how.time_limit), set[int]()
        self._asked = Interruption()
        self._programs: dict[int, Any] = {}

    def work(self) -> list[SearchTrial]:
        """Works until all trials have ended, or the time is up; all that have, by their numbers."""
        generation, n_trials = 0, self.how.n_trials
        with held_interrupts() as self._asked, self.store.leases.beating():
            # Each generation is drawn from what all earlier ones came to.
            while trials := self.draws.of_generation(generation, n_trials, self._evidence(generation)):
                if not self._carried_out(trials):
                    break
                generation += 1
        found = self.store.trials()
        return [found[number] for number in sorted(found) if number < n_trials]

    def _carried_out(self, trials: Mapping[int, Parameters]) -> bool:
        """Whether all trials of a generation have ended, when nothing more is to be done."""
        while True:
            found = self.store.trials()
            self._tell(found)
            for number in trials.keys() & found.keys():
                _refuse_others(found[number], trials[number], self.store)
            pending = {number: each for number, each in trials.items() if number not in found}
            if not pending:
                return True
            self._stop_if_asked()
            if not self._limit.allows_another():
                return False
            mine = self._taken(pending)
            if mine:
                self._run(mine)
            else:
                time.sleep(LOOK)  # others have them

    def _taken(self, pending: Mapping[int, Parameters]) -> list[Mapping[int, Parameters]]:
        """Heats of trials that are this worker's now, as many as run at once."""
        mine: list[Mapping[int, Parameters]] = []
        n_at_once = self.how.run_heats.n_at_once
        for number in pending.keys() - self._programs.keys():
            self._programs[number] = program_of(self.setting, number, pending[number])
        programs = {number: self._programs[number] for number in pending}
        # Rather a small heat for everybody than a large one for some.
        for heat in heats_of(programs, min(self.how.together, -(-len(pending) // n_at_once))):
            if len(mine) == n_at_once:
                break
            taken = self.store.take(heat)
            mine += [{number: pending[number] for number in taken}] if taken else []
        return mine

    def _run(self, heats: Sequence[Mapping[int, Parameters]]) -> None:
        parameters = {number: each for heat in heats for number, each in heat.items()}
        left, started, setting = set(parameters), time.monotonic(), self.setting

        def watching(n_steps: int, loss: float) -> None:
            self.report(n_steps, loss)
            self._stop_if_asked()

        try:
            with contextlib.closing(self.how.run_heats(setting, heats, watching)) as running:
                for number, measured in running:
                    self._limit.learn(time.monotonic() - started)
                    of_trial = parameters[number], measured, setting.objectives, setting.stops
                    self.store.add(SearchTrial.of(number, *of_trial))
                    self.store.give_back([number])
                    left.remove(number)
                    self._tell(self.store.known)
        finally:
            if left:
                with contextlib.suppress(InputError):  # the database is away: others wait until the time is up
                    self.store.give_back(left)

    def _tell(self, found: Mapping[int, SearchTrial]) -> None:
        for number in sorted(found.keys() - self._told):
            self._told.add(number)
            self.how.on_trial(found[number])

    def _stop_if_asked(self) -> None:
        if self._asked.is_set():
            self._asked.obey(STOPPED)

    def _evidence(self, generation: int) -> dict[int, tuple[Parameters, tuple[float, ...] | None]]:
        """What the generations before this one came to."""
        before, found = generation * self.draws.generation, self.store.trials()
        return {number: (each.parameters, each.values) for number, each in found.items() if number < before}


def _refuse_others(trial: SearchTrial, drawn: Parameters, store: TrialStore) -> None:
    """A trial that has ended must be the one that is drawn under its number; else nothing would be the same again."""
    if trial.parameters != drawn:
        raise InputError(
            f"Trial {trial.number} in {store.shown} has other parameters than this search draws, as another version of "
            "Optuna may; go on with the version that it was begun with, or start another search."
        )
