"""Checkpoints of a training run: a killed run goes on from the last.

A checkpoint holds the finished lanes' networks, the current group's whole state, and the validation
probabilities so far. It names what it belongs to by a fingerprint of the configuration and the data, so that it
is never continued with other ones.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from pathlib import Path
from typing import Any

import jax
import numpy as np

from nu_ensembles import storage
from nu_ensembles.contents import flag, stored, unfit, whole
from nu_ensembles.engine.program import Lanes, LaneState, Program, TrainingData
from nu_ensembles.lifecycle.state import KeptState, Pace, StateIndex

_EVALUATION = re.compile(r"(\d{1,15})/(\d{1,6})")


@dataclasses.dataclass(frozen=True, kw_only=True)
class CheckpointIndex(StateIndex):
    """What the index of a checkpoint holds beside what every state's does."""

    step: int = stored(whole())
    n_finished: int = stored(whole())
    has_current: bool = stored(flag)


class CheckpointFolder(KeptState):
    """Where a training keeps its latest checkpoint.

    Args:
      folder: made if it does not exist.
      every_seconds: how often a checkpoint is due; 0 means after every compiled call.
      resume: go on from the checkpoint in the folder, if there is one; otherwise one that is there is an error.
    """

    def __init__(self, folder: str | Path, every_seconds: float = 30.0, resume: bool = False) -> None:
        super().__init__(folder, pace=Pace(every_seconds), resume=resume)

    def save(
        self,
        fingerprint: str,
        finished: list[Any],
        current: LaneState | None,
        step: int,
        evaluations: dict[int, list[np.ndarray]],
    ) -> None:
        """Replaces the checkpoint. `finished` and `evaluations` are in the order of the lanes' groups."""
        arrays: dict[str, np.ndarray] = {}
        for number, group in enumerate(finished):
            arrays |= {f"finished/{number}/{name}": value for name, value in storage.flatten_like(group).items()}
        if current is not None:
            arrays |= {f"current/{name}": value for name, value in storage.flatten_like(current).items()}
        for at, parts in evaluations.items():
            arrays |= {f"evaluation/{at}/{number}": part for number, part in enumerate(parts)}
        about = {"step": step, "n_finished": len(finished), "has_current": current is not None}
        self.write(fingerprint, arrays, **about)

    def load(self, fingerprint: str, n_steps: int, n_groups: int) -> Checkpoint | None:
        """The checkpoint of a training of so many steps and groups, or None where there is none to go on from."""
        found = self.read(fingerprint, CheckpointIndex)
        if found is None:
            return None
        index, arrays = found
        if index.step > n_steps or index.n_finished > n_groups:
            raise unfit(f"The index of a checkpoint {self.index}", f"of at most {n_steps} steps", index.step)
        return Checkpoint(arrays, index.step, index.n_finished, index.has_current, f"The checkpoint in {self.folder}")


class Checkpoint:
    """What a checkpoint holds; trees are rebuilt in the shape of a template."""

    def __init__(
        self, arrays: dict[str, np.ndarray], step: int, n_finished: int, has_current: bool, where: str
    ) -> None:
        self._arrays, self._where = arrays, where
        self.step, self.n_finished, self.has_current = step, n_finished, has_current

    def _under(self, prefix: str) -> dict[str, np.ndarray]:
        return {name[len(prefix) :]: value for name, value in self._arrays.items() if name.startswith(prefix)}

    def finished(self, number: int, template: Any) -> Any:
        return storage.unflatten_like(self._under(f"finished/{number}/"), template, self._where)

    def current(self, template: LaneState) -> LaneState:
        return storage.unflatten_like(self._under("current/"), template, self._where)

    def evaluations(self) -> dict[int, list[np.ndarray]]:
        found: dict[int, list[tuple[int, np.ndarray]]] = {}
        for name, value in self._under("evaluation/").items():
            numbers = _EVALUATION.fullmatch(name)
            if numbers is None:
                raise unfit(self._where, "one whose evaluations are numbered", name)
            at, number = map(int, numbers.groups())
            found.setdefault(at, []).append((number, value))
        return {at: [part for _, part in sorted(parts, key=lambda p: p[0])] for at, parts in found.items()}


def fingerprint(
    program: Program, lanes: Lanes, data: TrainingData, n_steps: int, plan: Any, evaluated: Any = None
) -> str:
    """A hash of everything that decides the result: configuration, hyper-parameters, keys, data, and what is
    `evaluated` on the way, a tree of arrays.
    """
    settings = (
        program.model.spec or program.model,
        program.batch_size,
        program.unlabeled_batch_size,
        program.dtype,
        program.augment,
        program.augment_unlabeled,
        program.optimiser,
        n_steps,
        plan,
        jax.tree.structure(lanes.method),
    )
    digest = hashlib.sha256(lasting_repr(settings).encode())
    if data.outside is not None:
        digest.update(data.outside.rows.fingerprint.encode())
    keyless = lanes._replace(key=jax.random.key_data(lanes.key))
    for leaf in jax.tree.leaves((keyless, data, evaluated)):
        array = np.ascontiguousarray(np.asarray(leaf))
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def lasting_repr(value: Any) -> str:
    """A repr that is the same in the next process: functions by their names, without where they lie in memory."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))
