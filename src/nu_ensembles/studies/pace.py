"""How fast a study goes: time left for its progress line, and whether a group still fits into a time limit."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from nu_ensembles.studies.cells import Cell
from nu_ensembles.training import steps_in

# Seconds between two progress lines where standard error is a terminal.
REFRESH = 0.5


class Pace:
    """Counts lane steps (a step of one member); what a lane step takes is learnt by network and method.

    Args:
      pending: the cells to train.
      n_before: cells that were done before.
    """

    def __init__(self, pending: Sequence[Cell], n_before: int, verbose: int) -> None:
        self.left = list(pending)
        self.n_total, self.n_done, self.verbose = n_before + len(pending), n_before, verbose
        self.rates: dict[tuple[str, ...], float] = {}
        self.started = time.perf_counter()
        self.chunk: list[Cell] = []
        self.chunk_started = self.last_shown = self.started
        self.chunk_steps = 0

    def learn(self, cell: Cell, seconds: float) -> None:
        """Takes note of what a cell took."""
        if seconds > 0:
            self.rates[_sort(cell)] = seconds / lane_steps(cell)

    def estimate(self, cells: Sequence[Cell], *, guess: bool = False) -> float | None:
        """Seconds that the cells will take, or None if no such network was timed.

        Args:
          guess: take what other networks took, rather than nothing.
        """
        total = 0.0
        for cell in cells:
            rate = self._rate(cell, guess)
            if rate is None:
                return None
            total += rate * lane_steps(cell)
        return total

    def _rate(self, cell: Cell, guess: bool) -> float | None:
        """Seconds a lane step: of its own sort, or the slowest of its network, or of any."""
        own = self.rates.get(_sort(cell))
        if own is not None:
            return own
        alike = [rate for sort, rate in self.rates.items() if sort[:2] == _sort(cell)[:2]]
        others = alike or (list(self.rates.values()) if guess else [])
        return max(others, default=None)

    def fits(self, chunk: Sequence[Cell], time_limit: float | None, started: float) -> bool:
        """Whether a chunk is expected to end within the limit; one of unknown length is tried while there is time."""
        if time_limit is None:
            return True
        return time.perf_counter() - started + (self.estimate(chunk) or 0.0) < time_limit

    def start(self, chunk: Sequence[Cell]) -> None:
        self.chunk, self.chunk_started, self.chunk_steps = list(chunk), time.perf_counter(), 0

    def advance(self, n_lane_steps: int) -> None:
        """Tells of training under way; shown on a terminal now and then."""
        self.chunk_steps += n_lane_steps
        now = time.perf_counter()
        if self.verbose and sys.stderr.isatty() and now - self.last_shown > REFRESH:
            self.last_shown = now
            share = min(1.0, self.chunk_steps / max(1, sum(map(lane_steps, self.chunk))))
            more = f" and {len(self.chunk) - 1} more" if len(self.chunk) > 1 else ""
            line = f"{self._so_far()} {self.chunk[0].title}{more}: {100 * share:.0f} %" if self.chunk else ""
            print(f"\r\x1b[2K{line[:150]}", end="", file=sys.stderr, flush=True)

    def finish(self, cell: Cell) -> float:
        """The cell's share of its chunk's time so far: by lane steps among all that train with it."""
        taken = time.perf_counter() - self.chunk_started
        seconds = taken * lane_steps(cell) / max(1, sum(map(lane_steps, self.chunk)))
        self.learn(cell, seconds)
        self.left = [each for each in self.left if each.identity != cell.identity]
        self.n_done += 1
        return seconds

    def tell(self, cell: Cell, reason: str) -> None:
        """A line for a finished cell."""
        if self.verbose:
            ending = f"FAILED: {reason}" if reason else "done"
            clear = "\r\x1b[2K" if sys.stderr.isatty() else ""
            print(f"{clear}{self._so_far()} {cell.title}: {ending}", file=sys.stderr, flush=True)

    def _so_far(self) -> str:
        taken = _clock(time.perf_counter() - self.started)
        left = self.estimate(self.left, guess=True)
        about = "" if left is None or not self.left else f", about {_clock(left)} left"
        return f"[{self.n_done}/{self.n_total} cells, {taken}{about}]"


def lane_steps(cell: Cell) -> int:
    """Steps of all members of a cell."""
    return cell.n_members * steps_in(max(cell.epochs), cell.n_train, cell.batch_size)


def _sort(cell: Cell) -> tuple[str, ...]:
    return cell.kind, cell.model, cell.dataset, cell.method, cell.dtype


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
