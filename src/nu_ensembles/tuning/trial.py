"""The folds of a search, ready for any candidates: a lane for each candidate, fold and member.

A fold's member k is the same network whatever the candidate (common random numbers), so differences are paired.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import jax
import numpy as np

from nu_ensembles.engine.assembly import Assembly, MemberSet, assemble
from nu_ensembles.engine.pool import LanePool
from nu_ensembles.methods import Method
from nu_ensembles.training import TrainingJob
from nu_ensembles.tuning.folds import HeldOut
from nu_ensembles.tuning.rounds import SearchRound, SearchRounds
from nu_ensembles.tuning.scores import OutOfFold

# (lane steps that were done, loss) -> None
Show = Callable[[int, float], None]


class Trial:
    """Networks on folds.

    Args:
      stops: int `[S]`, the steps at which they are scored.
      n_members: of each fold.
      rounds: keep what is done in a run folder; None where there is none.
    """

    def __init__(
        self,
        job: TrainingJob,
        held_out: HeldOut,
        stops: np.ndarray,
        n_members: int,
        rounds: SearchRounds | None = None,
    ) -> None:
        self.job, self.held_out, self.stops, self.n_members = job, held_out, stops, n_members
        self.rounds = rounds
        self.lanes_a_set = len(held_out.folds) * n_members
        self.n_classes = len(job.problem.classes)

    def nothing_yet(self, betas: Sequence[float]) -> OutOfFold:
        """Room for what is to be measured of candidates."""
        return OutOfFold.empty(np.asarray(betas, float), self.stops, self.held_out, self.n_classes)

    def heat(self, methods: Mapping[int, Method], found: OutOfFold) -> Heat:
        """These candidates, by their numbers in `found`, about to start."""
        if self.rounds is None:
            return Heat(self, methods, found)
        return KeptHeat(self, methods, found, self.rounds)

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


class Heat:
    """Candidates that train side by side, from stop to stop.

    Args:
      methods: of each candidate, by its number in `found`; of one kind.
      found: takes what is measured.

    Attributes:
      remaining: the candidates that have not been dropped.
      stop: the number of the last stop that was measured; -1 before the first.
    """

    def __init__(self, trial: Trial, methods: Mapping[int, Method], found: OutOfFold) -> None:
        self.trial, self.found = trial, found
        self.methods, self.candidates = methods, list(methods)
        self.remaining = list(methods)
        self.stop = -1

    @cached_property
    def pool(self) -> LanePool:
        """Their lanes, on the device from the first step on: whoever waits for others takes no memory."""
        trial = self.trial
        assembly = trial.assembled(list(self.methods.values()))
        held_out = [fold.held_out for fold in trial.held_out.folds for _ in range(trial.n_members)]
        return LanePool(assembly, trial.lanes_a_set, trial.job.settings.plan, predicted=held_out)

    @property
    def is_over(self) -> bool:
        """Whether nobody is left, or no stop."""
        return not self.remaining or self.stop == len(self.trial.stops) - 1

    def get_ready(self) -> None:
        """Compiles what the first step needs, ahead of it."""
        if self.candidates:
            self.pool.get_ready()

    def go_on(self, show: Show) -> None:
        """Trains what remains up to the next stop, and measures it there."""
        self.stop += 1
        self._train_and_measure(show)

    def keep(self, candidates: Sequence[int]) -> None:
        """Drops all but these."""
        self.remaining = list(candidates)

    def _train_and_measure(self, show: Show) -> None:
        places = {each: self.candidates.index(each) for each in self.remaining}
        self.pool.keep(self.pool.lanes_of(list(places.values())))
        self.pool.advance(int(self.trial.stops[self.stop]), show)
        for candidate, place in places.items():
            members = self.pool.probabilities(self.pool.lanes_of([place]))
            by_fold = members.reshape(len(self.trial.held_out.folds), self.trial.n_members, *members.shape[1:])
            self.found.add(candidate, self.stop, by_fold.mean(axis=1))


class KeptHeat(Heat):
    """A heat whose way is kept in a run folder.

    Args:
      rounds: keep it.
    """

    def __init__(self, trial: Trial, methods: Mapping[int, Method], found: OutOfFold, rounds: SearchRounds) -> None:
        super().__init__(trial, methods, found)
        self._rounds = rounds

    @cached_property
    def _round(self) -> SearchRound:
        return self._rounds.next(list(self.methods.items()), self.pool, self.found, self.candidates)

    def go_on(self, show: Show) -> None:
        self.stop += 1
        if self._round.tells(self.stop):
            return  # an earlier life of the search has measured it
        self._round.put_back()
        self._train_and_measure(self._round.keeping(show))
        self._round.measured(self.stop)

    def keep(self, candidates: Sequence[int]) -> None:
        super().keep(candidates)
        self._round.ends(self.is_over)
