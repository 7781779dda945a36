"""Bars on standard error: for work that is counted (images, bytes), and for steps, with the loss. Silent where nobody
is looking.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


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
    if not _is_shown(verbose):
        yield lambda n: None
        return
    # Imported here so that the core runs without rich.
    from rich.progress import BarColumn, DownloadColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    count = DownloadColumn() if in_bytes else MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), count, TextColumn("left"), TimeRemainingColumn())
    with _bar(columns) as bar:
        task = bar.add_task(description, total=total, completed=done)
        yield lambda n: bar.update(task, advance=n)


@contextmanager
def step_bar(description: str, total: int, done: int = 0, verbose: int = 1) -> Iterator[Callable[[int, float], None]]:
    """Gives a function that is told of more steps and their loss; shows them, and their pace, as a bar."""
    if not _is_shown(verbose):
        yield lambda n_steps, loss: None
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
        TextColumn("{task.fields[rate]} steps/s  loss {task.fields[loss]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with _bar(columns) as bar:
        task = bar.add_task(description, total=total, completed=done, rate="…", loss="…")

        def advance(n_steps: int, loss: float) -> None:
            speed = bar.tasks[0].speed
            bar.update(task, advance=n_steps, loss=f"{loss:.4f}", rate=f"{speed:.0f}" if speed else "…")

        yield advance


def _is_shown(verbose: int) -> bool:
    return bool(verbose) and (sys.stderr.isatty() or in_notebook())


def in_notebook() -> bool:
    """Whether somebody looks at this in a notebook, whose kernel has no terminal but shows what is displayed."""
    if "IPython" not in sys.modules:
        return False
    shell = sys.modules["IPython"].get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def _bar(columns: tuple[Any, ...]) -> Any:
    from rich.console import Console
    from rich.progress import Progress

    # Without a terminal rich would show nothing before the end; a notebook's output can be written anew.
    console = Console(force_jupyter=True) if in_notebook() else Console(stderr=True)
    return Progress(*columns, console=console, transient=True)
