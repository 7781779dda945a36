"""A search in a run folder: its rounds, each kept on the way, so that a killed one goes on within the round it was in.

A round is a set of candidates that train side by side in one pool of lanes. What is kept of it is what was measured of
them, and where the pool is. A search is a function of what it measures. So one that goes on is simply done again: a
round tells what an earlier life of the search has measured, stop by stop, and trains on from there. Rounds are told
apart by their order; there may be any number of them, and they may take turns.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from nu_ensembles import storage
from nu_ensembles.contents import array_of, listing, stored, unfit, whole
from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.engine.pool import GroupState, LanePool
from nu_ensembles.lifecycle.interrupts import Interruption, held_interrupts
from nu_ensembles.lifecycle.state import KeptState, Pace, StateIndex
from nu_ensembles.training import RunFolder
from nu_ensembles.tuning.scores import OutOfFold

STOPPED = "Stopped; the run can be resumed from its checkpoint."
Report = Callable[[int, float], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoundIndex(StateIndex):
    """What the index of a round holds: at how many stops it was measured, and the steps of its groups."""

    n_measured: int = stored(whole())
    steps: tuple[int, ...] = stored(listing(whole()))


class SearchRounds:
    """The rounds of one search, in their order.

    Args:
      run: where they are kept; None keeps nothing.
      fingerprint: a SHA-256 of what decides the search; asked for once.
    """

    def __init__(self, run: RunFolder | None = None, fingerprint: Callable[[], str] = str) -> None:
        self._run, self._fingerprint = run, "" if run is None else fingerprint()
        self._pace = Pace(0.0 if run is None else run.checkpoint_seconds)
        self._rounds: list[SearchRound] = []
        self._asked = Interruption()

    def next(
        self,
        candidates: Sequence[object],
        pool: LanePool,
        found: OutOfFold,
        numbers: Sequence[int],
        beside: Mapping[str, np.ndarray] | None = None,
    ) -> SearchRound:
        """The round that starts now; in another life of the search it is the same one.

        Args:
          candidates: what trains in it.
          pool: of their lanes, at its start.
          found: takes what is measured.
          numbers: of the candidates in `found`.
          beside: float64 `[P, S, …]` by name, what else is measured of these candidates at every stop.
        """
        kept, run, number = None, self._run, len(self._rounds)
        text = f"{self._fingerprint} {number} {'' if run is None else lasting_repr(candidates)}"
        if run is not None:
            kept = KeptState(run.checkpoints.folder, f"search-{number}", pace=self._pace, resume=run.resume)
        self._rounds.append(
            SearchRound(self, kept, hashlib.sha256(text.encode()).hexdigest(), pool, found, list(numbers), beside or {})
        )
        return self._rounds[-1]

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Within it a signal waits until everything is kept."""
        if self._run is None:
            yield
            return
        with held_interrupts() as self._asked:
            yield
            if self._asked.is_set():  # after the last compiled call
                self.keep_if_due()

    def keep_if_due(self) -> None:
        """Called between two compiled calls: writes what has changed, of all rounds, when that is due."""
        if self._asked.is_set() or self._pace.due():
            for each in self._rounds:
                each.write()
        if self._asked.is_set():
            self._asked.obey(STOPPED)

    def clear(self) -> None:
        """Removes what was kept, when the outcome of the search is on disk."""
        for each in self._rounds:
            each.clear()


class SearchRound:
    """One round; without a place to keep it nothing is kept and nothing is told.

    Attributes:
      is_ahead: whether an earlier life got further than this one yet, so that the pool is still to be put back.
    """

    def __init__(
        self,
        rounds: SearchRounds,
        kept: KeptState | None,
        fingerprint: str,
        pool: LanePool,
        found: OutOfFold,
        numbers: list[int],
        beside: Mapping[str, np.ndarray],
    ) -> None:
        self._rounds, self._kept, self._fingerprint = rounds, kept, fingerprint
        self._pool, self._found, self._numbers, self._beside = pool, found, numbers, beside
        self._n_measured, self._is_over, self._changed = 0, False, False
        there = None if kept is None else kept.read(fingerprint, RoundIndex)
        self.is_ahead = there is not None
        if there is not None:
            self._index, self._arrays = there
            self._check()

    def _check(self) -> None:
        n_stops = len(self._found.steps)
        if self._index.n_measured > n_stops:
            raise unfit(self._where, f"one of {n_stops} stops", self._index.n_measured)
        for name, measured in self._measured().items():
            array = self._arrays.get(name)
            if array is None or array.shape != measured.shape or array.dtype != np.float64:
                raise unfit(self._where, f"one with {name} of this search", None)

    def _measured(self) -> dict[str, np.ndarray]:
        """All that was measured of the candidates."""
        return {
            "losses": self._found.losses[self._numbers],
            "probabilities": self._found.probabilities[self._numbers],
            **{f"beside/{name}": array for name, array in self._beside.items()},
        }

    @property
    def _where(self) -> str:
        return "The checkpoint" if self._kept is None else f"The checkpoint {self._kept.index}"

    def tells(self, stop: int) -> bool:
        """Whether an earlier life has measured the candidates at a stop, and puts that where it belongs."""
        if not self.is_ahead or stop >= self._index.n_measured:
            return False
        self._found.losses[self._numbers, stop] = self._arrays["losses"][:, stop]
        # At the best of all stops that will have been told.
        self._found.probabilities[self._numbers] = self._arrays["probabilities"]
        for name, array in self._beside.items():
            array[:, stop] = self._arrays[f"beside/{name}"][:, stop]
        self._n_measured = stop + 1
        return True

    def put_back(self) -> None:
        """Puts the pool where an earlier life had it, if there was one."""
        if not self.is_ahead:
            return
        self.is_ahead = False
        groups = [self._group(number, step) for number, step in enumerate(self._index.steps)]
        self._arrays = {}
        if groups:
            self._pool.restore(groups)

    def keeping(self, report: Report) -> Report:
        """What the pool is to call on its way to a stop."""
        if self._kept is None:
            return report

        def report_and_keep(n_steps: int, loss: float) -> None:
            self._changed = True
            report(n_steps, loss)
            self._rounds.keep_if_due()

        return report_and_keep

    def measured(self, stop: int) -> None:
        """Notes that what was found of the candidates holds a further stop."""
        self._n_measured, self._changed = stop + 1, True

    def ends(self, is_over: bool) -> None:
        """Notes whether the pool will go no further."""
        self._is_over = is_over

    def write(self) -> None:
        """Keeps the round as it is, unless it is kept like that."""
        if self._kept is None or not self._changed:
            return
        groups = [] if self._is_over else self._pool.state()
        arrays = self._measured()
        for number, group in enumerate(groups):
            arrays[f"lanes/{number}"] = group.lanes
            arrays |= {f"group/{number}/{name}": leaf for name, leaf in storage.flatten_like(group.state).items()}
        self._kept.write(self._fingerprint, arrays, n_measured=self._n_measured, steps=[group.step for group in groups])
        self._changed = False

    def clear(self) -> None:
        """Removes what was kept."""
        if self._kept is not None:
            self._kept.clear()

    def _group(self, number: int, step: int) -> GroupState:
        arrays, name, most = self._arrays, f"lanes/{number}", self._pool.all_lanes.n_lanes
        lanes = array_of(arrays, name, arrays.get(name, np.zeros(0)).shape, "i", self._where)
        if lanes.ndim != 1 or not lanes.size or (np.diff(lanes) <= 0).any() or lanes[0] < 0 or lanes[-1] >= most:
            raise unfit(f"{self._where}: {name!r}", f"numbers of {most} lanes", None)
        if step > self._found.steps[-1]:
            raise unfit(f"{self._where}: 'steps'", f"at most {self._found.steps[-1]}", step)
        prefix = f"group/{number}/"
        own = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
        return GroupState(lanes, step, storage.unflatten_like(own, self._pool.shapes_of(lanes), self._where))
