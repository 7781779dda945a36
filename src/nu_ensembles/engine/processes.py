"""Members spread over the processes of `jax.distributed`: each trains some of them on its own devices.

Lanes never meet, so nothing is exchanged until all are done; then every process gets all of them. What a process trains
is a shard: a stretch of lanes that is the same whoever trains it, with checkpoints of its own. A run that is resumed by
another number of processes has the shards that it began with, and so the same bits; each process takes every n-th.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

from nu_ensembles import storage
from nu_ensembles.contents import parsed, stored, whole
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.errors import InputError, NonFiniteLossError
from nu_ensembles.methods import Method

SHARDS = "shards.json"


def spread_over_processes(plan: str, method: Method, n_lanes: int, checkpoints: CheckpointFolder | None) -> bool:
    """Whether lanes are spread over processes, or were when the run began.

    Those that must meet, or shall train in one place, train in each process.
    """
    may_be = n_lanes > 1 and method.is_independent and plan in ("auto", "sharded")
    began_so = checkpoints is not None and checkpoints.resume and (checkpoints.folder / SHARDS).exists()
    return may_be and (n_processes() > 1 or began_so)


def n_processes() -> int:
    """How many processes work together; one without `jax.distributed.initialize`."""
    return jax.process_count()


def is_first() -> bool:
    """Whether this process is the one that writes what all share."""
    return jax.process_index() == 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Shards:
    n_shards: int = stored(whole(1))


def in_shards(
    train: Callable[[np.ndarray, CheckpointFolder | None], Any], n_lanes: int, checkpoints: CheckpointFolder | None
) -> Any:
    """What all processes find together, in each of them.

    Args:
      train: trains the lanes of these numbers, with checkpoints of their own; gives a `Trained`.
    """
    shards = shards_of(n_lanes, checkpoints)
    found: dict[int, Any] = {}
    trained = error = None
    try:
        for number in mine(shards):
            trained = train(shards[number], shard_checkpoints(checkpoints, number, len(shards)))
            found[number] = trained.params, trained.model_state, trained.evaluations, trained.losses
    except Exception as raised:  # the others wait for this process, so they are told before it is raised
        error = raised
    parts = gathered(found, shards, error)
    params, model_state, evaluations, losses = jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)
    assert trained is not None
    together = {"params": params, "model_state": model_state, "evaluations": evaluations, "losses": losses}
    return dataclasses.replace(trained, **together)


def shards_of(n_lanes: int, checkpoints: CheckpointFolder | None) -> list[np.ndarray]:
    """The lanes of every shard: one for each process, or those that a resumed run began with."""
    n = min(n_processes(), n_lanes)
    if checkpoints is not None:
        path = checkpoints.folder / SHARDS

        def agreed() -> int:
            if path.exists():
                return parsed(_Shards, storage.read_sealed_json(path, "The shards of a run"), str(path)).n_shards
            if checkpoints.resume and checkpoints.index.exists():  # a single process began
                return 1
            storage.make_folder(checkpoints.folder)
            storage.write_sealed_json(path, {"n_shards": n})
            return n

        n = told_by_the_first(agreed)
    return [shard for shard in np.array_split(np.arange(n_lanes), n) if len(shard)]


def mine(shards: Sequence[Any]) -> list[int]:
    """Which shards this process trains; one more than there are shards trains what another does, and nobody looks."""
    own = list(range(jax.process_index(), len(shards), n_processes()))
    return own or [jax.process_index() % len(shards)]


def shard_checkpoints(checkpoints: CheckpointFolder | None, number: int, n_shards: int) -> CheckpointFolder | None:
    """Where a shard's checkpoints go, if this process trains it for all; those of a single one where they always go."""
    if checkpoints is None or number % n_processes() != jax.process_index():
        return None
    if n_shards == 1:
        return checkpoints
    return CheckpointFolder(checkpoints.folder / f"shard-{number}", checkpoints.pace.every_seconds, checkpoints.resume)


def told_by_the_first(find: Callable[[], int]) -> int:
    """A whole number that the first process finds, in all of them; an error there is one in all."""
    if n_processes() == 1:
        return find()
    from jax.experimental import multihost_utils

    found, error = -1, None
    if is_first():
        try:
            found = find()
        except Exception as raised:
            error = raised
    told = int(multihost_utils.broadcast_one_to_all(np.int32(found)))
    if error is not None:
        raise error
    if told < 0:
        raise InputError("The first process could not begin; its message says why.")
    return told


def gathered(found: dict[int, Any], shards: Sequence[np.ndarray], error: Exception | None = None) -> list[Any]:
    """What the processes found of their shards, in the order of the shards, in every process.

    Args:
      found: shard -> tree of arrays with a leading axis of lanes; all shards' trees are alike.
      error: of this process, which then found nothing; it is raised, and told to the others.
    """
    if n_processes() == 1:
        if error is not None:
            raise error
        return [found[number] for number in range(len(shards))]
    failed = _of_all_processes(np.array(error is not None, np.uint8)).reshape(-1)
    if error is not None:
        raise error
    if failed.any():
        which = int(np.argmax(failed))
        raise NonFiniteLossError(f"The training of process {which} failed; its message says why.")
    longest = max(map(len, shards))
    own = [_padded(found[number], longest) for number in sorted(found)]
    parts: dict[int, Any] = {}
    for number in range(-(-len(shards) // n_processes())):
        # A process that has no further shard sends its first one again; nobody looks at it.
        of_round = _all_of(own[number] if number < len(own) else own[0])
        for process in range(n_processes()):
            shard = number * n_processes() + process
            if shard < len(shards):
                n = len(shards[shard])
                parts[shard] = jax.tree.map(lambda leaf, p=process, n=n: leaf[p, :n], of_round)
    return [parts[number] for number in range(len(shards))]


def _all_of(tree: Any) -> Any:
    """The trees of all processes, leaves `[processes, …]`, as bytes: no sum or cast on the way."""

    def one(leaf: np.ndarray) -> np.ndarray:
        plain = np.ascontiguousarray(leaf)
        raw = np.ascontiguousarray(_of_all_processes(plain.reshape(-1).view(np.uint8)))
        return raw.reshape(n_processes(), -1).view(plain.dtype).reshape(-1, *plain.shape)

    return jax.tree.map(one, tree)


def _of_all_processes(array: np.ndarray) -> np.ndarray:
    """The arrays of all processes, `[processes, …]`, once all have come so far."""
    from jax.experimental import multihost_utils

    try:
        return multihost_utils.process_allgather(array)
    except jax.errors.JaxRuntimeError as error:
        raise InputError(
            "Another process of this training is gone; start all of them again, with resume=True in its run folder."
        ) from error


def _padded(tree: Any, n_lanes: int) -> Any:
    return jax.tree.map(lambda leaf: np.concatenate([leaf, np.repeat(leaf[-1:], n_lanes - len(leaf), axis=0)]), tree)
