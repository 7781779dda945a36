"""Checkpoints of a training run: written aside, synced, renamed, checksummed; a killed run goes on from the last.

A checkpoint holds the finished lanes' networks, the current group's whole state, and the validation
probabilities so far. It names what it belongs to by a fingerprint of the configuration and the data, so that it
is never continued with other ones.
"""

from __future__ import annotations

import hashlib
import re
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import jax
import numpy as np

from nu_ensembles import storage
from nu_ensembles.engine.program import Lanes, LaneState, Program, TrainingData
from nu_ensembles.errors import InputError

INDEX = "checkpoint.json"


class CheckpointFolder:
    """Where a run keeps its latest checkpoint.

    Args:
      folder: made if it does not exist.
      every_seconds: how often a checkpoint is due; 0 means after every compiled call.
      resume: go on from the checkpoint in the folder, if there is one; otherwise one that is there is an error.
    """

    def __init__(self, folder: str | Path, every_seconds: float = 30.0, resume: bool = False) -> None:
        self.folder, self.every_seconds, self.resume = Path(folder), every_seconds, resume
        self._last = time.monotonic()
        self._number = 0

    def due(self) -> bool:
        return time.monotonic() - self._last >= self.every_seconds

    def save(
        self,
        fingerprint: str,
        finished: list[Any],
        current: LaneState | None,
        step: int,
        evaluations: dict[int, list[np.ndarray]],
    ) -> None:
        """Replaces the checkpoint. `finished` and `evaluations` are in the order of the lanes' groups."""
        self.folder.mkdir(parents=True, exist_ok=True)
        arrays: dict[str, np.ndarray] = {}
        for number, group in enumerate(finished):
            arrays |= {f"finished/{number}/{name}": value for name, value in storage.flatten_like(group).items()}
        if current is not None:
            arrays |= {f"current/{name}": value for name, value in storage.flatten_like(current).items()}
        for at, parts in evaluations.items():
            arrays |= {f"evaluation/{at}/{number}": part for number, part in enumerate(parts)}
        self._number += 1
        name = f"checkpoint-{self._number:06d}.safetensors"
        checksum = storage.save_arrays(self.folder / name, arrays)
        # The index is renamed into place after the arrays are on disk: a kill in between leaves the old pair.
        storage.write_sealed_json(
            self.folder / INDEX,
            {
                "arrays": name,
                "sha256": checksum,
                "fingerprint": fingerprint,
                "step": step,
                "n_finished": len(finished),
                "has_current": current is not None,
            },
        )
        for old in self.folder.glob("checkpoint-*.safetensors"):
            if old.name != name:
                old.unlink()
        self._last = time.monotonic()

    def load(self, fingerprint: str) -> Checkpoint | None:
        """The checkpoint, or None where there is none to go on from."""
        index = self.folder / INDEX
        if not index.exists():
            return None
        if not self.resume:
            raise InputError(f"{self.folder} holds an unfinished run; resume it, or choose another folder.")
        entry = storage.read_sealed_json(index, "the index of a checkpoint")
        if entry["fingerprint"] != fingerprint:
            raise InputError(
                f"The checkpoint in {self.folder} belongs to other data or settings; use the same ones to resume it, "
                "or start again in another folder."
            )
        self._number = int(Path(entry["arrays"]).stem.rsplit("-", 1)[1])
        arrays = storage.load_arrays(self.folder / entry["arrays"], entry["sha256"])
        return Checkpoint(arrays, entry["step"], entry["n_finished"], entry["has_current"])

    def clear(self) -> None:
        """Removes the checkpoint of a run that has ended."""
        (self.folder / INDEX).unlink(missing_ok=True)
        for old in self.folder.glob("checkpoint-*.safetensors"):
            old.unlink()


class Checkpoint:
    """What a checkpoint holds; trees are rebuilt in the shape of a template."""

    def __init__(self, arrays: dict[str, np.ndarray], step: int, n_finished: int, has_current: bool) -> None:
        self._arrays, self.step, self.n_finished, self.has_current = arrays, step, n_finished, has_current

    def _under(self, prefix: str) -> dict[str, np.ndarray]:
        return {name[len(prefix) :]: value for name, value in self._arrays.items() if name.startswith(prefix)}

    def finished(self, number: int, template: Any) -> Any:
        return storage.unflatten_like(self._under(f"finished/{number}/"), template)

    def current(self, template: LaneState) -> LaneState:
        return storage.unflatten_like(self._under("current/"), template)

    def evaluations(self) -> dict[int, list[np.ndarray]]:
        found: dict[int, list[tuple[int, np.ndarray]]] = {}
        for name, value in self._under("evaluation/").items():
            at, number = name.split("/")
            found.setdefault(int(at), []).append((int(number), value))
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
    keyless = lanes._replace(key=jax.random.key_data(lanes.key))
    for leaf in jax.tree.leaves((keyless, data, evaluated)):
        array = np.ascontiguousarray(np.asarray(leaf))
        digest.update(f"{array.dtype}{array.shape}".encode())
        digest.update(array.reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def lasting_repr(value: Any) -> str:
    """A repr that is the same in the next process: functions by their names, without where they lie in memory."""
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))


@contextmanager
def held_interrupts(active: bool) -> Iterator[threading.Event]:
    """Holds Ctrl-C back until the state is consistent: sets an event instead of raising.

    The compiled call donates the old state, so an exception in the middle would lose both. A second Ctrl-C raises
    at once, and one that nobody answered raises at the end.
    """
    asked = threading.Event()
    if not active or threading.current_thread() is not threading.main_thread():
        yield asked
        return

    previous = signal.getsignal(signal.SIGINT)

    def hold(number: int, frame: FrameType | None) -> None:
        if asked.is_set():
            raise KeyboardInterrupt
        asked.set()

    signal.signal(signal.SIGINT, hold)
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, previous)
    if asked.is_set():
        raise KeyboardInterrupt
