"""Kills of fits: at every file operation, and of what goes on after a kill; then on, to the same bits.

These kills are simulated: the run folder is copied before every file operation of a fit, and every copy is resumed (see
`watching.py`). `signals.py` sends real signals to real processes.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tally import Tally, blobs, tiny
from watching import copied_before_each, left_over, torn

import nu_ensembles as nu
from nu_ensembles.engine.run import Run

KINDS = ("search", "joint", "procedure")


class Steps:
    """How many steps of how many lanes were trained, and the most in one compiled call."""

    done = most = 0


@contextlib.contextmanager
def steps_counted() -> Iterator[type[Steps]]:
    real = Run._steps_of_a_block

    def counting(self: Run, data: Any, block: Any, end: int) -> Any:
        found = real(self, data, block, end)
        n = (end - self.step) * self.lanes.n_lanes
        Steps.done, Steps.most = Steps.done + n, max(Steps.most, n)
        return found

    Run._steps_of_a_block = counting  # pyright: ignore[reportAttributeAccessIssue]
    try:
        yield Steps
    finally:
        Run._steps_of_a_block = real


class Killed(NamedTuple):
    """A folder that a kill leaves, and how many steps were trained before it."""

    kind: str
    folder: Path
    steps: int
    again: bool


class Whole(NamedTuple):
    """A fit that nobody disturbed: its predictions and its steps."""

    predictions: np.ndarray
    steps: int


def kills(attempts: int, seconds: float, rng: np.random.Generator, place: Path) -> Tally:
    """Every kill of the first lives, half of them with half-written files; then kills of second lives at random."""
    rows = blobs(rng)
    whole: dict[str, Whole] = {}
    todo: list[Killed] = []
    with steps_counted() as count:
        for kind in KINDS:
            count.done = 0
            predictions = tiny(kind).fit(*rows).predict_members(rows[0])
            whole[kind] = Whole(predictions, count.done)
            run = place / kind / "run"
            run.mkdir(parents=True)
            todo += lives(kind, run, rows, False, 0)
        tally = Tally("kills", attempts, seconds)
        order = [todo[at] for at in rng.permutation(len(todo))]
        for number in tally:
            if number == len(order):
                order += second_lives(order, number, rng, rows, place)
            killed = order[number]
            _resume(tally, killed, rng, whole[killed.kind], rows)
    shutil.rmtree(place, ignore_errors=True)
    return tally


def lives(kind: str, run: Path, rows: Any, resume: bool, before: int) -> list[Killed]:
    """What kills of a fit leave: one before every file operation in its run folder."""
    done: list[int] = []
    Steps.done = before
    copies = run.with_name(f"{run.name}-copies")

    def work() -> None:
        tiny(kind, run, resume).fit(*rows)

    found = copied_before_each(run, copies, work, lambda: done.append(Steps.done))
    return [Killed(kind, folder, steps, resume) for folder, steps in zip(found, done, strict=True)]


def second_lives(order: list[Killed], number: int, rng: np.random.Generator, rows: Any, place: Path) -> list[Killed]:
    """What kills of resumed fits leave; the folders of the first kills are made anew, since those were resumed."""
    kind = KINDS[int(rng.integers(0, len(KINDS)))]
    run = place / f"{kind}-{number}" / "run"
    run.mkdir(parents=True)
    first = lives(kind, run, rows, False, 0)
    killed = first[int(rng.integers(0, len(first) - 2))]
    if _is_finished(killed.folder):
        return first
    again = lives(kind, killed.folder, rows, True, killed.steps)
    return [again[at] for at in rng.permutation(len(again))]


def _is_finished(folder: Path) -> bool:
    return (folder / "model").exists() and not (folder / "unfinished").exists()


def _resume(tally: Tally, killed: Killed, rng: np.random.Generator, whole: Whole, rows: Any) -> None:
    folder = killed.folder
    half = rng.random() < 0.5
    if half:
        torn(folder, rng)

    def call() -> str:
        if _is_finished(folder):
            right = np.array_equal(nu.Ensemble.load(folder / "model").predict_members(rows[0]), whole.predictions)
            return "" if right else "other bits in the finished model"
        Steps.done = killed.steps
        found = tiny(killed.kind, folder, resume=True).fit(*rows).predict_members(rows[0])
        if not np.array_equal(found, whole.predictions):
            return "other bits"
        repeated = Steps.done - whole.steps
        if repeated > Steps.most:
            return f"{repeated} steps repeated, where a call does {Steps.most}"
        left = [*left_over(folder), *(folder / "checkpoints").glob("*"), *folder.glob("unfinished")]
        saved = nu.Ensemble.load(folder / "model").predict_members(rows[0])
        return f"left over: {left[0].name}" if left else "" if np.array_equal(saved, found) else "another model saved"

    life = "a resumed fit" if killed.again else "a fit"
    kind = f"simulated, at a file operation of {life} ({killed.kind})"
    said: list[str] = []
    tally.attempt(kind, lambda: said.append(call()) or not said[-1], bool, longer=10, example=folder.name)
    if said and said[-1]:
        tally.examples.append(f"kills, {kind}: {said[-1]}")
    shutil.rmtree(folder, ignore_errors=True)
