"""The time that a study still takes: for its progress line, and whether a group still fits into a time limit."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.measure.jobs import member_steps

# Seconds between two progress lines where standard error is a terminal.
REFRESH = 0.5


class TimeLeft:
    """Counts steps of members; what one takes is learnt by network and method.

    Args:
      pending: the cells to train.
      n_before: cells that were done before.
    """

    def __init__(self, pending: Sequence[StudyCell], n_before: int, verbose: int) -> None:
        self.left = {cell.identity: cell for cell in pending}
        self.n_total, self.n_done, self.verbose = n_before + len(pending), n_before, verbose
        self.rates: dict[tuple[str, ...], float] = {}
        self.started = time.perf_counter()
        self.chunk: list[StudyCell] = []
        self.chunk_started = self.last_shown = self.started
        self.chunk_steps = 0

    def learn(self, cell: StudyCell, seconds: float) -> None:
        """Takes note of what a cell took."""
        if seconds > 0:
            self.rates[_sort(cell)] = seconds / member_steps(cell)

    def estimate(self, cells: Sequence[StudyCell], *, guess: bool = False) -> float | None:
        """Seconds that the cells will take, or None if no such network was timed.

        Args:
          guess: take what other networks took, rather than nothing.
        """
        rates = [(self._rate(cell, guess), member_steps(cell)) for cell in cells]
        return None if any(rate is None for rate, _ in rates) else sum(rate * steps for rate, steps in rates if rate)

    def _rate(self, cell: StudyCell, guess: bool) -> float | None:
        """Seconds a member step: of its own sort, or the slowest of its network, or of any."""
        sort = _sort(cell)
        alike = [rate for other, rate in self.rates.items() if other[:2] == sort[:2]]
        return self.rates.get(sort) or max(alike or (self.rates.values() if guess else []), default=None)

    def fits(self, chunk: Sequence[StudyCell], time_limit: float | None, started: float) -> bool:
        """Whether a chunk is expected to end within the limit; one of unknown length is tried while there is time."""
        taken = time.perf_counter() - started
        return time_limit is None or taken + (self.estimate(chunk) or 0.0) < time_limit

    def start(self, chunk: Sequence[StudyCell]) -> None:
        self.chunk, self.chunk_started, self.chunk_steps = list(chunk), time.perf_counter(), 0

    def advance(self, n_steps: int) -> None:
        """Tells of training under way; shown on a terminal now and then."""
        self.chunk_steps += n_steps
        now = time.perf_counter()
        if self.verbose and sys.stderr.isatty() and now - self.last_shown > REFRESH:
            self.last_shown = now
            share = min(1.0, self.chunk_steps / max(1, sum(map(member_steps, self.chunk))))
            more = f" and {len(self.chunk) - 1} more" if len(self.chunk) > 1 else ""
            line = f"{self._so_far()} {self.chunk[0].title}{more}: {100 * share:.0f} %" if self.chunk else ""
            print(f"\r\x1b[2K{line[:150]}", end="", file=sys.stderr, flush=True)

    def share(self, cell: StudyCell) -> float:
        """The cell's share of its chunk's time so far: by member steps among all that train with it."""
        taken = time.perf_counter() - self.chunk_started
        return taken * member_steps(cell) / max(1, sum(map(member_steps, self.chunk)))

    def ended(self, cell: StudyCell, seconds: float) -> None:
        """Takes note of a cell that took so long."""
        self.learn(cell, seconds)
        self.left.pop(cell.identity, None)
        self.n_done += 1

    def tell(self, cell: StudyCell, reason: str) -> None:
        """A line for a finished cell."""
        if self.verbose:
            ending = f"FAILED: {reason}" if reason else "done"
            clear = "\r\x1b[2K" if sys.stderr.isatty() else ""
            print(f"{clear}{self._so_far()} {cell.title}: {ending}", file=sys.stderr, flush=True)

    def _so_far(self) -> str:
        taken = _clock(time.perf_counter() - self.started)
        left = self.estimate(list(self.left.values()), guess=True)
        about = "" if left is None or not self.left else f", about {_clock(left)} left"
        return f"[{self.n_done}/{self.n_total} cells, {taken}{about}]"


def _sort(cell: StudyCell) -> tuple[str, ...]:
    return cell.kind, cell.model, cell.dataset, cell.method, cell.dtype


def _clock(seconds: float) -> str:
    whole = round(seconds)
    return f"{whole // 3600}:{whole % 3600 // 60:02d}:{whole % 60:02d}"
