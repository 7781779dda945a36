"""The folder that work fills as it goes: one worker at a time, from its beginning to its end.

A file named `unfinished` lies in it from the first moment to the last, so that what is finished is told from what was
killed just before its end: what came of the work is saved first, and only then is what led to it removed.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import Self

from nu_ensembles import storage
from nu_ensembles.errors import InputError
from nu_ensembles.storage import PathLike

UNFINISHED = "unfinished"
_NOTE = b"The work in this folder has not ended. Resume it, or remove the folder.\n"


class LifeFolder:
    """A folder in which something is done; within `with` by nobody else.

    Args:
      folder: new, empty, or that of work which was killed.
      kind: of work, in messages.

    Attributes:
      started: whether there was something in it before.
    """

    def __init__(self, folder: PathLike, kind: str = "run") -> None:
        self.folder, self.kind = Path(folder), kind
        self.started = False
        self._held = contextlib.ExitStack()

    @property
    def unfinished(self) -> bool:
        """Whether work began here that has not ended."""
        return (self.folder / UNFINISHED).exists()

    def enter(self) -> None:
        """Makes the folder, keeps others out, and removes what a killed process left half written.

        Raises:
          InputError: it cannot be made, or another process works in it.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._held.enter_context(storage.alone_in(self.folder))
        except OSError as error:
            raise InputError(
                f"The {self.kind} folder {self.folder} cannot be made ({error.strerror}); choose another."
            ) from error
        for inside, _, _ in os.walk(self.folder):
            storage.sweep(Path(inside))
        self.started = any(self.folder.iterdir())

    def __enter__(self) -> Self:
        self.enter()
        return self

    def __exit__(self, *_: object) -> None:
        self.leave()

    def begin(self) -> None:
        """Notes that there is work to finish."""
        if not self.unfinished:
            storage.write_bytes(self.folder / UNFINISHED, _NOTE)

    def end(self) -> None:
        """Notes that what came of the work is on disk, and nothing is left that only led to it."""
        storage.remove_file(self.folder / UNFINISHED)

    def leave(self) -> None:
        """Lets others in."""
        self._held.close()
