"""What killed processes left behind: half-written files and folders, and the locks of places that nobody holds."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

_PARTIAL = re.compile(r"\.(?P<name>.+)\.[0-9a-f]{8}\.partial")


def lock_beside(path: Path) -> Path:
    """The file that is locked while somebody works for a place."""
    return path.with_name(f".{path.name}.lock")


def tidy(path: Path) -> None:
    """Removes what killed processes left of their work for one place."""
    sweep(path.parent, path.name)
    if os.name != "nt":
        _remove_if_left(lock_beside(path))


def sweep(folder: Path, name: str | None = None) -> None:
    """Removes what killed processes left half written in a folder.

    Args:
      name: only what was to become this; None for everything.
    """
    if os.name == "nt":
        return  # nobody's lock can be asked for there
    with contextlib.suppress(OSError):
        with os.scandir(folder) as entries:
            partial = [
                each for each in entries if (found := _PARTIAL.fullmatch(each.name)) and name in (None, found["name"])
            ]
        for entry in partial:
            _remove_if_left(Path(entry.path))


def _remove_if_left(path: Path) -> None:
    with contextlib.suppress(OSError):
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW)
        try:
            if _is_free(handle):
                shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink()
        finally:
            os.close(handle)


def _is_free(handle: int) -> bool:
    """Like `locked`, but where there are no locks somebody may still be writing."""
    import fcntl

    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True
