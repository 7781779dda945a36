"""What a campaign tried and how it ended."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from nu_ensembles.errors import InputError, MissingExtraError, NonFiniteLossError

# Where scikit-learn checks what estimators are given.
SCIKIT_LEARN = f"{os.sep}sklearn{os.sep}"
DOCUMENTED = (InputError, MissingExtraError, NonFiniteLossError)
# Seconds of the processor that an answer may take, and of the clock after which none is awaited.
LONGEST, NO_ANSWER = 5.0, 120
# An attempt may grow the process by so many bytes, or by four times what the honest file or arguments do.
MOST_GROWTH, MOST_TIMES = 64 << 20, 4


class NoAnswer(BaseException):
    """An attempt that did not end."""


@dataclasses.dataclass
class Tally:
    """Counts of one campaign; a few examples of what failed.

    Attributes:
      campaign: its name.
      attempts: how many it makes.
      seconds: after how long it stops, done or not.
      notes: what was measured beside that, in words.
    """

    campaign: str
    attempts: int
    seconds: float
    tried: Counter[str] = dataclasses.field(default_factory=Counter)
    refused: Counter[str] = dataclasses.field(default_factory=Counter)
    failed: Counter[str] = dataclasses.field(default_factory=Counter)
    examples: list[str] = dataclasses.field(default_factory=list)
    notes: list[str] = dataclasses.field(default_factory=list)
    honest: dict[str, int] = dataclasses.field(default_factory=dict)
    started: float = dataclasses.field(default_factory=time.monotonic)

    def __iter__(self) -> Iterator[int]:
        """Numbers of attempts, until all are made or the time is over."""
        while sum(self.tried.values()) < self.attempts and time.monotonic() - self.started < self.seconds:
            yield sum(self.tried.values())

    def measure(self, kind: str, call: Callable[[], Any]) -> Any:
        """Calls what is honest, and remembers by how much it grew the process."""
        before = lowered_peak()
        found = call()
        self.honest[kind] = max(self.honest.get(kind, 0), peak() - before)
        return found

    def attempt(
        self,
        kind: str,
        call: Callable[[], Any],
        is_right: Callable[[Any], Any] = lambda _: True,
        longer: int = 1,
        example: str = "",
        also: tuple[type[Exception], ...] = (),
    ) -> None:
        """Tries something that must give what is right or refuse in one sentence.

        Args:
          also: what scikit-learn's own checks may raise; an estimator hands them on.
          longer: how many times as long as usual it may take, because it trains.
          example: what was tried, to be told if it fails.
        """
        self.tried[kind] += 1
        before = lowered_peak()
        # Processor time: another process may have the cores.
        started = time.process_time()
        try:
            with answered_in(NO_ANSWER):
                found = call()
        except DOCUMENTED as error:
            self.refused[kind] += 1
            if "\n" in str(error) or not str(error).strip():
                self.fail(kind, f"{example} not one sentence: {error}")
        except NoAnswer:
            self.fail(kind, f"{example} gave no answer in {NO_ANSWER} s")
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            if isinstance(error, also) and SCIKIT_LEARN in last.filename:
                self.refused[kind] += 1
            else:
                where = f"{Path(last.filename).name}:{last.lineno} {last.name}"
                self.fail(kind, f"{example} {type(error).__name__}: {error} ({where})")
        else:
            if not is_right(found):
                self.fail(kind, f"{example} other than what is right, without a word")
        if time.process_time() - started > LONGEST * longer:
            self.fail(kind, f"{example} took {time.process_time() - started:.0f} s")
        if kind in self.honest and peak() - before > max(MOST_GROWTH, MOST_TIMES * self.honest[kind]):
            self.fail(kind, f"{example} took {(peak() - before) >> 20} MB")

    def fail(self, kind: str, why: str) -> None:
        self.failed[kind] += 1
        if len(self.examples) < 40:
            self.examples.append(f"{self.campaign}, {kind}: {' '.join(why.split())[:300]}")

    def rows(self) -> list[dict[str, Any]]:
        return [
            {"campaign": self.campaign, "kind": kind, "tried": n}
            | {"refused": self.refused[kind], "failed": self.failed[kind]}
            for kind, n in sorted(self.tried.items())
        ]


@contextlib.contextmanager
def answered_in(seconds: int) -> Iterator[None]:
    """Ends what waits for ever: a pipe that nobody writes to, a lock that nobody gives back."""

    def stop(*_: object) -> NoReturn:
        raise NoAnswer

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def lowered_peak() -> int:
    """Bytes of this process in memory; from now on `peak` tells how many there were at most since."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:  # no Linux
        return 0
    return _bytes_of("VmRSS")


def peak() -> int:
    """Bytes of this process in memory, at most."""
    return _bytes_of("VmHWM")


def _bytes_of(name: str) -> int:
    try:
        text = Path("/proc/self/status").read_text()
    except OSError:
        return 0
    return int(text.split(f"{name}:")[1].split()[0]) << 10


def blobs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three overlapping clouds: labelled rows, their classes, unlabelled rows."""
    centres, y = 1.5 * rng.normal(size=(3, 4)), np.arange(40) % 3
    x = centres[y] + rng.normal(size=(40, 4))
    return x, y, centres[np.arange(50) % 3] + rng.normal(size=(50, 4))


def tiny(kind: str, folder: Path | None = None, resume: bool = False, **further: Any) -> Any:
    """A classifier that trains in a third of a second: with a search, of members that meet, of a procedure."""
    import nu_ensembles as nu

    options: dict[str, Any] = {
        "n_members": 2,
        "model_options": {"hidden": (8,)},
        "max_iter": 6,
        "batch_size": 8,
        "random_state": 0,
        "cv": 2,
        "run_folder": folder,
        "resume": resume,
        "checkpoint_seconds": 0,
        **further,
    }
    if kind == "search":
        return nu.NuEnsembleClassifier(betas=(0.01, 0.1), **options)
    if kind == "joint":
        return nu.EnsembleClassifier("pac2", early_stopping=True, **options)
    return nu.EnsembleClassifier("self_training", **options)
