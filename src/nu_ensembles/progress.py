"""A bar on standard error for work that is counted: images, bytes. Silent where nobody is looking.

The engine has a bar of its own, which shows the loss.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def counting_bar(
    description: str, total: int | None, *, done: int = 0, verbose: int = 1, in_bytes: bool = False
) -> Iterator[Callable[[int], None]]:
    """Gives a function that is told how much more has been done; shows it if `verbose` on a terminal.

    Args:
      description: what is under way.
      total: how much there is to do; None if unknown.
      done: how much of it was done before.
      verbose: 0 for silence.
      in_bytes: show megabytes instead of numbers.
    """
    if not verbose or not sys.stderr.isatty():
        yield lambda n: None
        return
    # Imported here so that the core runs without rich.
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TextColumn("left"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total, completed=done)
        yield lambda n: bar.update(task, advance=n)
