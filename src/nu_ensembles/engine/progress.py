"""A progress bar on standard error: steps a second, loss, time left. Silent where nobody is looking."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    def advance(self, n_steps: int, loss: float) -> None: ...


class _Silent:
    def advance(self, n_steps: int, loss: float) -> None:
        pass


@contextmanager
def progress_bar(description: str, total_steps: int, done_steps: int = 0, verbose: int = 1) -> Iterator[Progress]:
    """Shows `advance(n_steps, loss)` as a bar if `verbose` and standard error is a terminal."""
    if not verbose or not sys.stderr.isatty():
        yield _Silent()
        return
    # Imported here so that the core runs without rich.
    from rich.console import Console
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} steps"),
        TextColumn("{task.fields[rate]} steps/s  loss {task.fields[loss]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(description, total=total_steps, completed=done_steps, rate="…", loss="…")

        class _Bar:
            def advance(self, n_steps: int, loss: float) -> None:
                speed = bar.tasks[0].speed
                bar.update(task, advance=n_steps, loss=f"{loss:.4f}", rate=f"{speed:.0f}" if speed else "…")

        yield _Bar()
