"""A search in a run folder: its rounds, each kept on the way, so that a killed one goes on within the round it was in.

A round is a set of candidates that train side by side in one pool of lanes. What is kept of it is where the pool is and
what was found out of fold so far; of a finished round the latter alone. Rounds are told apart by their order, which the
data and the settings decide, so a search may have any number of them.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from nu_ensembles import storage
from nu_ensembles.contents import array_of, listing, stored, unfit, whole
from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.engine.pool import GroupState, LanePool
from nu_ensembles.lifecycle.interrupts import Interruption, held_interrupts
from nu_ensembles.lifecycle.state import KeptState, StateIndex
from nu_ensembles.training import RunFolder
from nu_ensembles.tuning.scores import OutOfFold

STOPPED = "Stopped; the run can be resumed from its checkpoint."
Report = Callable[[int, float], None]


@dataclasses.dataclass(frozen=True, kw_only=True)
class RoundIndex(StateIndex):
    """What the index of a round holds: the stop that it was on its way to, who was, and the steps of the groups."""

    stop: int = stored(whole())
    remaining: tuple[int, ...] = stored(listing(whole()))
    steps: tuple[int, ...] = stored(listing(whole()))


class SearchRounds:
    """The rounds of one search, in their order.

    Args:
      run: where they are kept; None keeps nothing.
      fingerprint: a SHA-256 of what decides the search; asked for once.
    """

    def __init__(self, run: RunFolder | None = None, fingerprint: Callable[[], str] = str) -> None:
        self._run, self._fingerprint = run, "" if run is None else fingerprint()
        self._rounds: list[SearchRound] = []

    def next(self, candidates: Iterable[object]) -> SearchRound:
        """The round that comes now; in another life of the search the same candidates at the same place."""
        if self._run is None:
            return SearchRound(None, "", False)
        text = f"{self._fingerprint} {len(self._rounds)} {lasting_repr(list(candidates))}"
        run, name = self._run, f"search-{len(self._rounds)}"
        kept = KeptState(run.checkpoints.folder, name, every_seconds=run.checkpoint_seconds, resume=run.resume)
        self._rounds.append(SearchRound(kept, hashlib.sha256(text.encode()).hexdigest(), run.resume))
        return self._rounds[-1]

    def clear(self) -> None:
        """Removes what was kept, when the outcome of the search is on disk."""
        for each in self._rounds:
            each.clear()


class SearchRound:
    """One round; without a place to keep it everything here does nothing."""

    def __init__(self, kept: KeptState | None, fingerprint: str, resume: bool) -> None:
        self._kept, self._fingerprint = kept, fingerprint
        self._asked = Interruption()

    def resumed(self, pool: LanePool, found: OutOfFold, candidates: Sequence[int]) -> tuple[int, list[int]]:
        """From which stop on to go, and with which candidates; puts the pool and what was found back there.

        Args:
          pool: of all lanes, at their start.
          found: empty.
          candidates: numbers of all of them.
        """
        there = None if self._kept is None else self._kept.read(self._fingerprint, RoundIndex)
        if there is None or self._kept is None:
            return 0, list(candidates)
        (index, arrays), where = there, f"The checkpoint {self._kept.index}"
        in_order = list(index.remaining) == sorted(set(index.remaining) & set(candidates))
        if not in_order or index.stop > len(found.steps):
            raise unfit(where, f"one of {len(candidates)} candidates and {len(found.steps)} stops", index.stop)
        for name in ("losses", "probabilities"):
            array = arrays.get(name)
            if array is None or array.shape != getattr(found, name).shape or array.dtype != np.float64:
                raise unfit(where, f"one with {name} of this search", None)
            getattr(found, name)[...] = array
        pool.restore([_group(pool, arrays, number, step, where) for number, step in enumerate(index.steps)])
        return index.stop, list(index.remaining)

    @contextlib.contextmanager
    def watched(self) -> Iterator[None]:
        """Within it a signal waits until the round is kept."""
        with held_interrupts(self._kept is not None) as self._asked:
            yield

    def keeping(self, pool: LanePool, found: OutOfFold, stop: int, remaining: Sequence[int], report: Report) -> Report:
        """What the pool is to call on its way to a stop: reports, and keeps the round when that is due."""
        if self._kept is None:
            return report
        kept = self._kept

        def report_and_keep(n_steps: int, loss: float) -> None:
            report(n_steps, loss)
            if self._asked.is_set() or kept.due():
                self._write(found, stop, remaining, pool.state())
            if self._asked.is_set():
                self._asked.obey(STOPPED)

        return report_and_keep

    def finish(self, found: OutOfFold) -> None:
        """Keeps what a finished round found."""
        self._write(found, len(found.steps), [], [])

    def clear(self) -> None:
        if self._kept is not None:
            self._kept.clear()

    def _write(self, found: OutOfFold, stop: int, remaining: Sequence[int], groups: Sequence[GroupState]) -> None:
        if self._kept is None:
            return
        arrays = {"losses": found.losses, "probabilities": found.probabilities}
        for number, group in enumerate(groups):
            arrays[f"lanes/{number}"] = group.lanes
            arrays |= {f"group/{number}/{name}": leaf for name, leaf in storage.flatten_like(group.state).items()}
        about = {"stop": stop, "remaining": list(remaining), "steps": [group.step for group in groups]}
        self._kept.write(self._fingerprint, arrays, **about)


def _group(pool: LanePool, arrays: dict[str, np.ndarray], number: int, step: int, where: str) -> GroupState:
    name, most = f"lanes/{number}", pool.all_lanes.n_lanes
    lanes = array_of(arrays, name, arrays.get(name, np.zeros(0)).shape, "i", where)
    if lanes.ndim != 1 or not lanes.size or (np.diff(lanes) <= 0).any() or lanes[0] < 0 or lanes[-1] >= most:
        raise unfit(f"{where}: {name!r}", f"numbers of {most} lanes", None)
    prefix = f"group/{number}/"
    own = {key.removeprefix(prefix): value for key, value in arrays.items() if key.startswith(prefix)}
    return GroupState(lanes, step, storage.unflatten_like(own, pool.shapes_of(lanes), where))
