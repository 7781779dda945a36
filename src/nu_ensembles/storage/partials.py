"""What is being written: files and folders under hidden names beside their final ones, locked by their writers.

The lock tells what a killed process left behind, which is removed, from what another is still writing.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path

from nu_ensembles.storage.locks import is_at, locked


@contextlib.contextmanager
def partial_file(path: Path) -> Iterator[tuple[Path, int]]:
    """A new file beside `path`, and its open handle; it is gone at the end, unless it has been renamed."""
    while True:
        aside = _aside(path)
        # Not tempfile: its files are readable by their owner only and would stay so under the final name.
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0), 0o666)
        if locked(handle) and is_at(handle, aside):
            break
        os.close(handle)  # taken for a leftover between the two
    try:
        yield aside, handle
    finally:
        with contextlib.suppress(OSError):
            aside.unlink()
        os.close(handle)


@contextlib.contextmanager
def partial_folder(path: Path) -> Iterator[Path]:
    """A new folder beside `path`; it is gone at the end, unless it has been renamed."""
    while True:
        aside = _aside(path)
        aside.mkdir()
        handle = os.open(aside, os.O_RDONLY) if os.name != "nt" else None
        if handle is None or (locked(handle) and is_at(handle, aside)):
            break
        os.close(handle)
    try:
        yield aside
    finally:
        shutil.rmtree(aside, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def _aside(path: Path) -> Path:
    return path.with_name(f".{path.name}.{secrets.token_hex(4)}.partial")
