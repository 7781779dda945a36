"""A Ray cluster: reached, or told in a sentence why not; and members of one ensemble as its tasks.

The only file of the package that knows Ray; the studies' executor for clusters (`run/on_ray.py` there) stands on it.
Ray decides where a task runs and runs it again when its worker or node dies; what a task comes to depends on its
arguments alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import socket
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

import jax
import numpy as np

from nu_ensembles import storage
from nu_ensembles.checks import check_positive, check_whole, shown
from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.errors import InputError, MissingExtraError
from nu_ensembles.lifecycle.state import KeptState, StateIndex
from nu_ensembles.methods import Members, Networks
from nu_ensembles.models import split_variables, variable_shapes
from nu_ensembles.problem import plain_seed
from nu_ensembles.rows import LazyRows
from nu_ensembles.training.idle_members import warn_of_idle_members
from nu_ensembles.training.job import TrainingJob
from nu_ensembles.training.run_folder import RunFolder
from nu_ensembles.training.runner import JobTrainer

Item = TypeVar("Item")
# Seconds in which a cluster must answer.
PATIENCE = 20.0
# Tasks that wait at the cluster for each that runs, so that none of its processors does.
AHEAD = 3
LOSS = "loss at the end"


@dataclasses.dataclass(frozen=True)
class RayCluster:
    """Where tasks run, and what each gets.

    Attributes:
      address: of the cluster's head, HOST:PORT, from one of its nodes; "auto" for the cluster that this machine belongs
        to; None for what `ray.init` has connected to, or RAY_ADDRESS names, or else this machine alone.
      cpus_per_task: processors.
      gpus_per_task: GPUs; .25 lets four tasks share one.
      retries: how often a task is run again whose worker or node died.
    """

    address: str | None = None
    cpus_per_task: float = 1.0
    gpus_per_task: float = 0.0
    retries: int = 3

    def __post_init__(self) -> None:
        check_positive(self.cpus_per_task, "cpus_per_task", zero_allowed=True)
        check_positive(self.gpus_per_task, "gpus_per_task", zero_allowed=True)
        check_whole(self.retries, "retries", least=0)
        if not self.cpus_per_task and not self.gpus_per_task:
            raise InputError("A task needs a share of a processor or of a GPU: give cpus_per_task or gpus_per_task.")

    def n_at_once(self) -> int:
        """How many tasks the cluster runs at the same time, as it is now; at least one.

        Raises:
          InputError: none fits into it.
        """
        there = _ray().cluster_resources()
        wanted = {"CPU": self.cpus_per_task, "GPU": self.gpus_per_task}
        rooms = [int(there.get(name, 0) / each) for name, each in wanted.items() if each]
        if not min(rooms):
            lacking = " and ".join(f"{each:g} {name}" for name, each in wanted.items() if each > there.get(name, 0))
            raise InputError(f"No task fits into this Ray cluster: one needs {lacking}; ask for less, or add nodes.")
        return max(1, min(rooms))

    def results(
        self, function: Callable[[Any, Item], Any], items: Iterable[Item], shared: Any
    ) -> Iterator[tuple[Item, Any]]:
        """`function(shared, item)` of each item as they end; an exception instead, where there is no result.

        Args:
          function: of the package, or of a module that the nodes have.
          items: asked for when there is room for them.
          shared: what all of them get; sent once.
        """
        ray = _ray()
        task = ray.remote(num_cpus=self.cpus_per_task, num_gpus=self.gpus_per_task, max_retries=self.retries)(function)
        sent, most, left = ray.put(shared), AHEAD * self.n_at_once(), iter(items)
        running: dict[Any, Item] = {}
        try:
            while True:
                while len(running) < most and (item := next(left, _NO_MORE)) is not _NO_MORE:
                    running[task.remote(sent, item)] = item
                if not running:
                    return
                ray.wait(list(running), num_returns=1)
                # All that have ended meanwhile: to ask for them one by one takes longer than a short task.
                for each in ray.wait(list(running), num_returns=len(running), timeout=0)[0]:
                    yield running.pop(each), _result(each)
        finally:
            for each in running:
                with contextlib.suppress(Exception):
                    ray.cancel(each, force=False)


_NO_MORE: Any = object()


def _ray() -> Any:
    try:
        import ray  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError("A Ray cluster", "ray") from error
    return ray


def _result(reference: Any) -> Any:
    ray = _ray()
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        return error.cause if isinstance(error.cause, Exception) else error
    except ray.exceptions.RayError as error:
        return error


@contextlib.contextmanager
def connected(cluster: RayCluster) -> Iterator[None]:
    """Within it tasks can be sent to the cluster; a connection that was there before stays.

    Raises:
      InputError: it does not answer.
    """
    ray = _ray()
    if ray.is_initialized():
        yield
        return
    where = cluster.address or os.environ.get("RAY_ADDRESS") or None
    if where not in (None, "auto", "local"):
        _refuse_silent(where)
    failed: list[BaseException] = []
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR", "include_dashboard": False}
    if where is not None:
        del quiet["include_dashboard"]  # the cluster's own business

    def connect() -> None:
        try:
            with warnings.catch_warnings():
                # Of forks beside JAX's threads; what Ray starts is another program at once.
                warnings.simplefilter("ignore", RuntimeWarning)
                ray.init(address=where, **quiet)
        except BaseException as error:
            failed.append(error)

    if where in (None, "local"):
        connect()  # here, because the servers that it starts end with the thread that did
    else:
        # In a thread: something that answers and is no Ray cluster would be asked for minutes.
        thread = threading.Thread(target=connect, daemon=True)
        thread.start()
        thread.join(PATIENCE)
        if thread.is_alive():
            raise InputError(
                f"The Ray cluster {where!r} did not answer within {PATIENCE:.0f} s: check the address and `ray status` "
                "on a node."
            )
    if failed:
        if isinstance(failed[0], KeyboardInterrupt | SystemExit):
            raise failed[0]
        named = f"The Ray cluster {where!r}" if where is not None else "A Ray cluster of this machine alone"
        why = " ".join(str(failed[0]).split())[:300]
        raise InputError(f"{named} cannot be used ({why}): check the address, and `ray status` on a node of it.")
    try:
        yield
    finally:
        ray.shutdown()


def _refuse_silent(address: str) -> None:
    """Refuses an address that is none, or where nobody answers."""
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or "/" in host:
        raise InputError(f"A Ray cluster's address is HOST:PORT, as in 10.0.0.5:6379, or auto, not {shown(address)}.")
    try:
        with socket.create_connection((host, int(port)), timeout=PATIENCE):
            pass
    except (OSError, OverflowError) as error:
        raise InputError(
            f"The Ray cluster {address!r} does not answer ({error.strerror if isinstance(error, OSError) else error}): "
            "check the address, and `ray status` on a node of it."
        ) from None


def ray_cluster(plan: Any) -> RayCluster | None:
    """The cluster that a plan means: "ray" or a `RayCluster`; None for the engine's own plans.

    Raises:
      MissingExtraError: Ray is not installed.
    """
    if not isinstance(plan, RayCluster) and not (isinstance(plan, str) and plan == "ray"):
        return None
    _ray()
    return plan if isinstance(plan, RayCluster) else RayCluster()


def refuse_members_that_meet(job: TrainingJob) -> None:
    """Refuses a method whose members cannot be tasks, and rows that cannot be sent along."""
    if isinstance(job.problem.x_unlabeled, LazyRows):
        raise InputError(
            "Tasks of a cluster get their rows in memory, and these unlabelled rows stay in files; use plan='auto', or "
            "give an array of some of them."
        )
    if not job.method.is_independent or not job.method.is_one_training:
        raise InputError(
            f"The members of {job.method.name!r} do not train independently in one training, so they cannot be tasks "
            "of a cluster; use plan='auto'."
        )


def members_on_ray(job: TrainingJob, cluster: RayCluster, run: RunFolder | None = None) -> Members:
    """The members of a job, a task for each; they come to the bits that they come to here.

    Args:
      run: keeps every member as soon as it has ended.
    """
    kept = {} if run is None else {member: _kept(run, member) for member in job.members}
    of_all = "" if run is None else _fingerprint(job)
    found: dict[int, dict[str, np.ndarray]] = {}
    for member, state in kept.items():
        if (there := state.read(of_all, StateIndex)) is not None:
            found[member] = there[1]
    missing = [member for member in job.members if member not in found]
    if missing:
        with connected(cluster):
            for member, result in cluster.results(_train_member, missing, job):
                if isinstance(result, Exception):
                    raise result
                found[member] = result
                if member in kept:
                    kept[member].write(of_all, result)
    template = _shapes(job)
    trees = [storage.unflatten_like(_without_loss(found[each]), template, f"Member {each}") for each in job.members]
    params, state = jax.tree.map(lambda *leaves: np.concatenate(leaves), *trees)
    losses = np.array([float(found[each][LOSS]) for each in job.members])
    rate = job.settings.learning_rate if job.settings.optimiser is None else None
    warn_of_idle_members(losses, job.members, job.problem, rate)
    return Members(Networks(job.network, params, state))


def _train_member(job: TrainingJob, member: int) -> dict[str, np.ndarray]:
    """A member as named arrays, and the loss that it ended with; on whichever machine."""
    trainer = JobTrainer(job.replace(members=(member,)), None, None, 0, "")
    networks = trainer.train("", job.method.base, [member])
    return {**storage.flatten_like((networks.params, networks.model_state)), LOSS: np.asarray(trainer.losses[0])}


def _without_loss(found: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: array for name, array in found.items() if name != LOSS}


def _shapes(job: TrainingJob) -> Any:
    """The shapes of one member's parameters and mutable state, with an axis of members."""
    params, state = split_variables(variable_shapes(job.network, job.problem.row_shape, job.settings.dtype))
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((1, *leaf.shape), leaf.dtype), (params, state))


def _kept(run: RunFolder, member: int) -> KeptState:
    return KeptState(run.checkpoints.folder / f"member-{member}", resume=run.resume)


def _fingerprint(job: TrainingJob) -> str:
    """Of all that decides the members."""
    what = job.network.spec or job.network, job.method, job.settings, job.n_steps, plain_seed(job.key)
    digest = hashlib.sha256(lasting_repr(what).encode())
    for part in job.rows:
        array = np.ascontiguousarray(np.zeros(0) if part is None else part)
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()
