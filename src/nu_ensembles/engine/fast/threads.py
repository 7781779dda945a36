"""Tasks side by side in threads: lanes on a CPU's cores, programs that are compiled at the same time.

XLA gives one small convolution about one core, whatever there are. Two lanes, each stepping through its own program in
its own thread, train in 20 ms a lane (LeNet, 64 images of 32x32, two cores) where one after the other takes 29
(`nu-ensembles profile --model lenet --members 2`, and the same with `--plan sequential`).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from nu_ensembles.backend import with_settings_of_here

Result = TypeVar("Result")


def n_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def side_by_side(tasks: Sequence[Callable[[threading.Event], Result]]) -> list[Result]:
    """The results of tasks that run in as many threads as there are cores, with JAX's settings of this one.

    Args:
      tasks: each takes an event and should return soon, with anything, when it is set: an error in one of them, or
        Ctrl-C, ends all.
    """
    stopped = threading.Event()
    with ThreadPoolExecutor(min(len(tasks), n_cores())) as threads:
        futures = [threads.submit(with_settings_of_here(task), stopped) for task in tasks]
        try:
            return [future.result() for future in futures]
        finally:
            stopped.set()
