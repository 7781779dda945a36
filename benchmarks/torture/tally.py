"""What a campaign tried and how it ended."""

from __future__ import annotations

import dataclasses
import time
import traceback
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np

from nu_ensembles.errors import InputError, MissingExtraError, NonFiniteLossError

DOCUMENTED = (InputError, MissingExtraError, NonFiniteLossError)
LONGEST = 5.0


@dataclasses.dataclass
class Tally:
    """Counts of one campaign; a few examples of what failed.

    Attributes:
      campaign: its name.
      seconds: how long it may take.
    """

    campaign: str
    seconds: float
    tried: Counter[str] = dataclasses.field(default_factory=Counter)
    refused: Counter[str] = dataclasses.field(default_factory=Counter)
    failed: Counter[str] = dataclasses.field(default_factory=Counter)
    examples: list[str] = dataclasses.field(default_factory=list)
    started: float = dataclasses.field(default_factory=time.monotonic)

    def start(self) -> None:
        """The time counts from here on: not what is set up before."""
        self.started = time.monotonic()

    @property
    def is_over(self) -> bool:
        return time.monotonic() - self.started > self.seconds

    def attempt(
        self, kind: str, call: Callable[[], Any], is_right: Callable[[Any], bool] = lambda _: True, longer: int = 1
    ) -> None:
        """Tries something that must give what is right or refuse in one sentence.

        Args:
          longer: how many times as long as usual it may take, because it trains.
        """
        self.tried[kind] += 1
        # Processor time: another process may have the cores.
        started = time.process_time()
        try:
            found = call()
        except DOCUMENTED as error:
            self.refused[kind] += 1
            if "\n" in str(error):
                self.fail(kind, f"more than a sentence: {error}")
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            self.fail(kind, f"{type(error).__name__}: {error} ({last.name}, line {last.lineno})")
        else:
            if not is_right(found):
                self.fail(kind, "other numbers without a word")
        if time.process_time() - started > LONGEST * longer:
            self.fail(kind, f"took {time.process_time() - started:.0f} s")

    def fail(self, kind: str, why: str) -> None:
        self.failed[kind] += 1
        if len(self.examples) < 20:
            self.examples.append(f"{kind}: {' '.join(why.split())[:200]}")

    def rows(self) -> list[dict[str, Any]]:
        return [
            {
                "campaign": self.campaign,
                "kind": kind,
                "tried": n,
                "refused": self.refused[kind],
                "failed": self.failed[kind],
            }
            for kind, n in sorted(self.tried.items())
        ]


def blobs(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Three overlapping clouds: labelled rows, their classes, unlabelled rows."""
    centres, y = 1.5 * rng.normal(size=(3, 4)), np.arange(40) % 3
    x = centres[y] + rng.normal(size=(40, 4))
    return x, y, centres[np.arange(50) % 3] + rng.normal(size=(50, 4))
