"""What is done with a group of cells: train them, measure them at every epoch, give back what was found.

One function for each kind of cell. Scoring runs in threads beside the training where the device is not the CPU itself.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from nu_ensembles.backend import Backend
from nu_ensembles.errors import NonFiniteLossError
from nu_ensembles.studies.cells import Cell
from nu_ensembles.studies.data import Parts, load_parts
from nu_ensembles.studies.extras import EXTRAS
from nu_ensembles.studies.measuring import Predictions, measure
from nu_ensembles.studies.networks import network
from nu_ensembles.studies.one_by_one import train_by_itself
from nu_ensembles.studies.recipes import Arrived, Diverged, Report, job_of, method_of, random_targets
from nu_ensembles.studies.side_by_side import Group

OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"


@dataclasses.dataclass(frozen=True)
class Context:
    """What all measurements of a run share.

    Attributes:
      data_dir: where the data sets are, or None for the usual places.
      cells_at_once: how many cells train side by side at most; None lets the device decide.
      keep_probabilities: give back the members' probabilities on the test rows, too.
    """

    data_dir: Path | None = None
    cells_at_once: int | None = None
    keep_probabilities: bool = False


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """A finished cell: what was measured, or why it failed; and arrays to keep beside it."""

    cell: Cell
    measured: dict[str, Any]
    reason: str = ""
    arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)


Job = Callable[[Report], Iterator[Outcome]]


def program_key(cell: Cell) -> tuple[Any, ...]:
    """Cells with the same key can train in one program: everything but rates, traced hyper-parameters and seed."""
    rows = cell.seed if cell.split == "random" else None
    same = dataclasses.replace(
        cell.identity, seed=0, learning_rate=1.0, weight_decay=0.0, options=(), also=(), method="standard"
    )
    method = method_of(cell)
    if method.is_independent:
        return same, rows, type(method), jax.tree.structure(method)
    return cell.identity, rows, type(method), None


def trajectory_jobs(cells: Sequence[Cell], context: Context) -> Iterator[tuple[list[Cell], Job]]:
    """The chunks of a group that share a program, each with the job that trains and measures it."""
    parts = load_parts(cells[0], context.data_dir)
    model, rows = network(cells[0], parts.n_classes), Predictions.rows(parts)
    if not method_of(cells[0]).is_independent:
        for cell in cells:

            def alone(report: Report, cell: Cell = cell) -> Iterator[Outcome]:
                yield from _measured(
                    [cell], train_by_itself(cell, job_of(cell, model, parts), rows, report), parts, context
                )

            yield [cell], alone
        return
    group = Group(cells, model, parts, rows, context.cells_at_once)
    for chunk in group.chunks():

        def together(report: Report, chunk: list[Cell] = chunk) -> Iterator[Outcome]:
            yield from _in_smaller_chunks(group, chunk, report, parts, context)

        yield chunk, together


def _in_smaller_chunks(
    group: Group, chunk: list[Cell], report: Report, parts: Parts, context: Context
) -> Iterator[Outcome]:
    """Trains a chunk, and its halves if the device has no room for it."""
    done: set[Cell] = set()
    try:
        for outcome in _measured(chunk, group.train(chunk, report), parts, context):
            done.add(outcome.cell)
            yield outcome
    except jax.errors.JaxRuntimeError as error:
        left = [cell for cell in chunk if cell not in done]
        if OUT_OF_MEMORY not in str(error) or len(left) < 2:
            raise
        half = len(left) // 2
        for smaller in (left[:half], left[half:]):
            yield from _in_smaller_chunks(group, smaller, report, parts, context)


def _measured(
    cells: Sequence[Cell], arrivals: Iterator[Arrived | Diverged], parts: Parts, context: Context
) -> Iterator[Outcome]:
    """Scores every arrival; a cell's outcome comes when its last epoch has been scored."""
    waiting: dict[Cell, dict[int, tuple[Future[dict[str, Any]], dict[str, Any]]]] = {cell: {} for cell in cells}
    targets = {cell: random_targets(cell, parts) for cell in cells}
    with _scorers() as scorers:
        try:
            for arrival in arrivals:
                cell = arrival.cell
                if isinstance(arrival, Diverged):
                    del waiting[cell]
                    yield Outcome(cell, {}, arrival.reason)
                    continue
                scores = scorers.submit(_score, arrival.members, parts, targets[cell])
                waiting[cell][arrival.epochs] = scores, {name: EXTRAS[name](arrival, parts) for name in cell.also}
                if arrival.epochs != max(cell.epochs):
                    continue
                of_cell = sorted(waiting.pop(cell).items())
                found = {"epochs": {str(epochs): scores.result() | extras for epochs, (scores, extras) in of_cell}}
                arrays = {}
                if context.keep_probabilities:
                    test = Predictions.cut(arrival.members, parts).test
                    arrays = {"members": test.astype(np.float16), "labels": parts.y_test}
                yield Outcome(cell, found, arrays=arrays)
        except NonFiniteLossError as error:
            (cell,) = waiting  # only a cell that trains alone raises
            yield Outcome(cell, {}, str(error))


def _score(members: np.ndarray, parts: Parts, targets: np.ndarray | None) -> dict[str, Any]:
    return measure(Predictions.cut(members, parts), parts, targets)


class _AtOnce(Executor):
    """Does in the same thread what it is given."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


@contextmanager
def _scorers() -> Iterator[Executor]:
    if not Backend.current().scores_in_threads:
        yield _AtOnce()
        return
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        yield pool
