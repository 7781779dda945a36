"""Where the pieces of a study or a search are carried out: here, in processes beside this one, or on a Ray cluster.

One small interface. What is carried out is a function of the package with its arguments, nothing that hangs together
with this process; its results come as they end and are written by whoever asked, once.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from typing import Any, Protocol, TypeVar

from nu_ensembles.checks import check_name, check_whole
from nu_ensembles.engine.fast.threads import n_cores
from nu_ensembles.errors import InputError
from nu_ensembles.training.on_ray import RayCluster, connected

Item = TypeVar("Item")
ON = ("here", "processes", "ray")
_NO_MORE: Any = object()


class Executor(Protocol):
    """Carries pieces of work out."""

    def n_at_once(self) -> int:
        """How many pieces at the same time."""
        ...

    def results(
        self, function: Callable[[Any, Item], Any], items: Iterable[Item], shared: Any
    ) -> Iterator[tuple[Item, Any]]:
        """`function(shared, item)` of each item as they end; an exception instead, where there is no result.

        Items are asked for when there is room for them.
        """
        ...


class Locally:
    """One piece after another, in this process."""

    def n_at_once(self) -> int:
        return 1

    def results(
        self, function: Callable[[Any, Item], Any], items: Iterable[Item], shared: Any
    ) -> Iterator[tuple[Item, Any]]:
        for item in items:
            try:
                found = function(shared, item)
            except Exception as error:
                found = error
            yield item, found


class InProcesses:
    """In processes beside this one; one that dies costs the pieces that were under way, which are tried again.

    Args:
      number: of processes; None for as many as there are cores.
      retries: how often a piece is tried again that a process died with.
    """

    def __init__(self, number: int | None = None, retries: int = 3) -> None:
        self.number = n_cores() if number is None else check_whole(number, "processes")
        self.retries = retries

    def n_at_once(self) -> int:
        return self.number

    def results(
        self, function: Callable[[Any, Item], Any], items: Iterable[Item], shared: Any
    ) -> Iterator[tuple[Item, Any]]:
        left, again, tries = iter(items), list[Item](), dict[int, int]()
        while True:
            # A process that was forked after JAX had started would hang. When one dies, all of its pool fail: the next
            # pool is a new one.
            pool, running = ProcessPoolExecutor(self.number, get_context("spawn")), dict[Future[Any], Item]()
            died = False
            try:
                while not died:
                    while len(running) < self.number:
                        item = again.pop() if again else next(left, _NO_MORE)
                        if item is _NO_MORE:
                            break
                        running[pool.submit(function, shared, item)] = item
                    if not running:
                        return
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        item, error = running.pop(future), future.exception()
                        tries[id(item)] = tries.get(id(item), 0) + 1
                        died = died or isinstance(error, BrokenProcessPool)
                        if isinstance(error, BrokenProcessPool) and tries[id(item)] <= self.retries:
                            again.append(item)
                        else:
                            yield item, future.result() if error is None else error
                again += running.values()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


@contextlib.contextmanager
def executor_on(
    on: str,
    address: str | None = None,
    cpus_per_task: float = 1.0,
    gpus_per_task: float = 0.0,
    retries: int = 3,
) -> Iterator[Executor]:
    """The executor that a command line asks for, ready to be used.

    Args:
      on: "here", "processes" or "ray".
      address, cpus_per_task, gpus_per_task, retries: see `RayCluster`.

    Raises:
      InputError: there is none of that name, or the cluster does not answer, or has no room for a task.
    """
    check_name(on, "place to run on:", ON)
    if on != "ray" and (address is not None or gpus_per_task):
        raise InputError("--address and --gpus-per-task belong to a Ray cluster: add --on ray, or leave them out.")
    if on == "here":
        yield Locally()
        return
    if on == "processes":
        yield InProcesses(retries=check_whole(retries, "retries", least=0))
        return
    cluster = RayCluster(address, cpus_per_task, gpus_per_task, retries)
    with connected(cluster):
        cluster.n_at_once()  # which refuses tasks that fit nowhere
        yield cluster
