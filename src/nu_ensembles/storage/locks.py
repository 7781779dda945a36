"""Locks that the system takes back when their holder dies, so that none is ever stale: of folders, and of places.

A folder that exists is locked itself. A place where nothing is yet (the model that a fit will write) is locked by a
hidden file beside it, which goes with the lock; one that a killed process left is taken over.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from nu_ensembles.errors import InputError
from nu_ensembles.storage.leftovers import lock_beside, sweep

PathLike = str | os.PathLike[str]


@contextlib.contextmanager
def alone_in(folder: PathLike) -> Iterator[None]:
    """Keeps everybody else who asks for the same out of a folder.

    Raises:
      InputError: another process, or another thread of this one, is in it.
    """
    handle = os.open(folder, os.O_RDONLY) if os.name != "nt" else None
    try:
        if handle is not None and not locked(handle):
            raise _taken(folder, "folder")
        yield
    finally:
        if handle is not None:
            os.close(handle)


@contextlib.contextmanager
def claimed(path: PathLike) -> Iterator[None]:
    """Keeps everybody else who asks for the same from writing to a path, from before the work until it is written.

    Raises:
      InputError: another process, or another thread of this one, works for the same path.
    """
    path = Path(os.path.abspath(path))
    beside = lock_beside(path)
    if os.name == "nt" or not os.access(path.parent, os.W_OK):
        yield  # who writes there says why it cannot be written
        return
    handle = _opened(beside, path)
    try:
        sweep(path.parent, path.name)
        yield
    finally:
        # While it is still locked: whoever opened it before finds that it is gone, and makes another.
        with contextlib.suppress(OSError):
            beside.unlink()
        os.close(handle)


def locked(handle: int) -> bool:
    """Whether this open file or folder is now locked by its opener; where there are no locks nobody else is assumed."""
    try:
        import fcntl
    except ImportError:  # Windows
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # a file system without locks
    return True


def is_at(handle: int, path: Path) -> bool:
    """Whether what is open is still what the path leads to."""
    try:
        return os.path.samestat(os.fstat(handle), os.lstat(path))
    except OSError:
        return False


def _opened(beside: Path, path: Path) -> int:
    while True:
        try:
            handle = os.open(beside, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)
        except OSError as error:
            raise InputError(
                f"{path} cannot be written ({error.strerror}): choose a place that exists, is writable and has room."
            ) from error
        if not locked(handle):
            os.close(handle)
            raise _taken(path, "place")
        if is_at(handle, beside):
            return handle
        os.close(handle)  # its holder has just removed it


def _taken(path: PathLike, kind: str) -> InputError:
    return InputError(f"Another process is writing to {Path(path)}: wait until it ends, or choose another {kind}.")
