"""Tasks in threads of their own: lanes on a CPU's cores, programs that are compiled at the same time.

XLA gives one small convolution about one core, whatever there are. Two lanes, each stepping through its own program in
its own thread, train in 20 ms a lane (LeNet, 64 images of 32x32, two cores) where one after the other takes 29
(`nu-ensembles profile --model lenet --members 2`, and the same with `--plan sequential`).
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import jax

Result = TypeVar("Result")


def n_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def with_settings_of_here(task: Callable[..., Result]) -> Callable[..., Result]:
    """The task, for another thread: settings such as `with jax.enable_x64(True):` hold there as they do here."""
    here: Any = jax.config  # whose fields are made as it is imported
    x64, precision, device = here.jax_enable_x64, here.jax_default_matmul_precision, here.jax_default_device
    by_place = here.jax_threefry_partitionable

    def carried_out(*arguments: Any) -> Result:
        numbers = jax.enable_x64(x64), jax.default_matmul_precision(precision), jax.threefry_partitionable(by_place)
        with numbers[0], numbers[1], numbers[2], jax.default_device(device):
            return task(*arguments)

    return carried_out


@contextlib.contextmanager
def in_background(task: Callable[[], object]) -> Iterator[None]:
    """Within it the task runs in a thread of its own, with JAX's settings of here; its error is raised at the end."""
    with ThreadPoolExecutor(1) as thread:
        future = thread.submit(with_settings_of_here(task))
        yield
        future.result()


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
