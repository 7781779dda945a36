"""The latest state of work that takes long: arrays in a file, and a sealed index that names them.

The index is renamed into place after the arrays are on disk, and only then is what it replaces removed: a kill at any
moment leaves the old pair or the new one. A fingerprint of everything that decides the outcome says what work it is,
so that it is never continued with other data or settings.
"""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from nu_ensembles import storage
from nu_ensembles.contents import checksum, file_name, parsed, stored
from nu_ensembles.errors import InputError

# Writing takes no more than this share of the time, however often states are asked for and however large they are.
MOST_OF_THE_TIME = 0.1


@dataclasses.dataclass(frozen=True, kw_only=True)
class StateIndex:
    """What every index holds; the index of something special is a subclass with fields of its own."""

    arrays: str = stored(file_name)
    sha256: str = stored(checksum)
    fingerprint: str = stored(checksum)


Index = TypeVar("Index", bound=StateIndex)


class Pace:
    """How often a state is due; several states of one work may share it.

    Args:
      every_seconds: 0 means at every opportunity.
    """

    def __init__(self, every_seconds: float = 30.0) -> None:
        self.every_seconds = every_seconds
        self._last = time.monotonic()
        self._taken = 0.0  # seconds, by writing the last one

    def due(self) -> bool:
        """Whether the next state is to be written."""
        wait = max(self.every_seconds, self._taken / MOST_OF_THE_TIME) if self.every_seconds else 0.0
        return time.monotonic() - self._last >= wait

    def written(self, started: float) -> None:
        """Notes that a state is on disk that began to be written at a time."""
        self._last = time.monotonic()
        self._taken = self._last - started


class KeptState:
    """Where work keeps its latest state.

    Args:
      folder: made if it does not exist.
      name: of the state's files.
      pace: how often a state is due.
      resume: go on from the state in the folder, if there is one; otherwise one that is there is an error.
    """

    def __init__(
        self, folder: str | Path, name: str = "checkpoint", *, pace: Pace | None = None, resume: bool = False
    ) -> None:
        self.folder, self.name = Path(folder), name
        self.pace, self.resume = pace or Pace(), resume
        self._number = 0

    @property
    def index(self) -> Path:
        return self.folder / f"{self.name}.json"

    def due(self) -> bool:
        """Whether the next state is to be written."""
        return self.pace.due()

    def write(self, fingerprint: str, arrays: dict[str, np.ndarray], **about: Any) -> None:
        """Replaces the state.

        Args:
          fingerprint: a SHA-256 of what decides the outcome.
          arrays: the state.
          about: further fields of the index.
        """
        started = time.monotonic()
        storage.make_folder(self.folder)
        self._number += 1
        file = f"{self.name}-{self._number:06d}.safetensors"
        sha256 = storage.save_arrays(self.folder / file, arrays)
        storage.write_sealed_json(self.index, {"arrays": file, "sha256": sha256, "fingerprint": fingerprint, **about})
        for old in self._files():
            if old.name != file:
                storage.remove_file(old)
        self.pace.written(started)

    def read(
        self, fingerprint: str, form: type[Index], what: str = "checkpoint"
    ) -> tuple[Index, dict[str, np.ndarray]] | None:
        """The index and the arrays, or None where there is nothing to go on from.

        Args:
          form: of the index.
          what: to call it in messages.

        Raises:
          InputError: it belongs to other work, or nobody asked to resume.
        """
        if not self.index.exists():
            return None
        if not self.resume:
            raise InputError(f"{self.folder} holds an unfinished run; resume it, or choose another folder.")
        where = f"The index of a {what}"
        found = parsed(form, storage.read_sealed_json(self.index, where), f"{where} {self.index}")
        if found.fingerprint != fingerprint:
            raise other_work(f"The {what} in {self.folder}")
        number = found.arrays.removesuffix(".safetensors").rsplit("-", 1)[-1]
        self._number = int(number) if number.isdecimal() and len(number) < 12 else 0
        return found, storage.load_arrays(self.folder / found.arrays, found.sha256)

    def clear(self) -> None:
        """Removes the state of work that has ended."""
        storage.remove_file(self.index)
        for old in self._files():
            storage.remove_file(old)

    def _files(self) -> list[Path]:
        return list(self.folder.glob(f"{self.name}-[0-9]*.safetensors"))


def other_work(what: str) -> InputError:
    """The error for something that other data or settings led to."""
    return InputError(
        f"{what} belongs to other data or settings; use the same ones to resume it, or start again in another folder."
    )
