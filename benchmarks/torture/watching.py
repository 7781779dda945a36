"""What lies on the disk before every file operation: what a kill at that moment would leave.

A kill leaves what the operations before it have done. So a folder is copied before every operation that changes it, and
every copy is what a killed process leaves: as many kills as there are operations, in one process. A file that is still
being written has by then all or nothing of its content; `torn` cuts it anywhere.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"}


class Watch:
    """Whoever is told of file operations in a folder; there is one at most."""

    folder: str = ""
    tell: Callable[[str], None] | None = None
    busy: bool = False
    hooked: bool = False


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if Watch.tell is None or Watch.busy or event not in EVENTS or not arguments:
        return
    path = arguments[0]
    reads = event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if reads or not isinstance(path, str | os.PathLike) or not os.fspath(path).startswith(Watch.folder):
        return
    Watch.busy = True
    try:
        Watch.tell(event)
    finally:
        Watch.busy = False


@contextlib.contextmanager
def watched(folder: Path, tell: Callable[[str], None]) -> Iterator[None]:
    """Tells of every operation that changes something in a folder, before it is done."""
    if not Watch.hooked:
        sys.addaudithook(_hook)
        Watch.hooked = True
    Watch.folder, Watch.tell = str(folder), tell
    try:
        yield
    finally:
        Watch.tell = None


def copied_before_each(
    folder: Path, copies: Path, work: Callable[[], Any], then: Callable[[], Any] = lambda: None
) -> list[Path]:
    """Does some work in a folder; copies of it as it was before every operation, in their order.

    Args:
      then: called after each copy.
    """
    copies.mkdir(parents=True)
    found: list[Path] = []

    def copy(_: str) -> None:
        found.append(copies / f"{len(found):05d}")
        shutil.copytree(folder, found[-1], symlinks=True)
        then()

    with watched(folder, copy):
        work()
    return found


def torn(folder: Path, rng: np.random.Generator) -> None:
    """Cuts what is half written in a folder off at a random byte."""
    for path in sorted(folder.rglob(".*.partial")):
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        for file in files:
            with file.open("r+b") as content:
                content.truncate(int(rng.integers(0, file.stat().st_size + 1)))


def left_over(folder: Path) -> list[Path]:
    """What nobody would miss: hidden files of what was being written, locks."""
    return sorted(folder.rglob(".*"))
