"""What is done with a group of cells: train them, measure them at every epoch, give back what was found.

One function for each kind of cell. Scoring runs in threads beside the training where the device is not the CPU itself.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import jax
import numpy as np

from nu_ensembles.backend import Backend
from nu_ensembles.errors import NonFiniteLossError
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.networks import network
from nu_ensembles_studies.declare.options import StudyRunOptions
from nu_ensembles_studies.measure.auto_and_standard import auto_and_standard_scores
from nu_ensembles_studies.measure.cost import cost_scores
from nu_ensembles_studies.measure.further_scores import FURTHER_SCORES
from nu_ensembles_studies.measure.jobs import (
    Arrived,
    Diverged,
    Report,
    job_of,
    member_steps,
    method_of,
    random_targets,
)
from nu_ensembles_studies.measure.of_methods import scores_at_equal_steps, scores_at_equal_time
from nu_ensembles_studies.measure.parts import Parts, load_parts
from nu_ensembles_studies.measure.rival_scores import rival_scores, split_of
from nu_ensembles_studies.measure.scores import measure
from nu_ensembles_studies.measure.train_cells import Group, train_by_itself
from nu_ensembles_studies.measure.under_shift import deployment_scores

OUT_OF_MEMORY = "RESOURCE_EXHAUSTED"


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """A finished cell: what was measured, or why it failed; and arrays to keep beside it."""

    cell: StudyCell
    measured: dict[str, Any]
    reason: str = ""
    arrays: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)


# Trains and measures some cells, and tells of progress.
Task = Callable[[Report], Iterator[Outcome]]
# The tasks of a group of cells, each with the cells that it is for.
Tasks = Iterator[tuple[list[StudyCell], Task]]


def program_key(cell: StudyCell) -> tuple[Any, ...]:
    """Cells with the same key can train in one program: everything but rates, traced hyper-parameters and seed."""
    rows = cell.seed if cell.split == "random" else None
    same = dataclasses.replace(
        cell.identity, seed=0, learning_rate=1.0, weight_decay=0.0, options=(), also=(), method="standard"
    )
    method = method_of(cell)
    if method.is_independent:
        return same, rows, type(method), jax.tree.structure(method)
    return cell.identity, rows, type(method), None


def trajectory_tasks(cells: Sequence[StudyCell], how: StudyRunOptions) -> Tasks:
    """Cells that share a program, in chunks that train side by side; or one by one where their members meet."""
    parts = load_parts(cells[0], how.data_dir)
    model, rows = network(cells[0], parts.n_classes), parts.measured_rows
    if not method_of(cells[0]).is_independent:
        for cell in cells:

            def alone(report: Report, cell: StudyCell = cell) -> Iterator[Outcome]:
                arrivals = train_by_itself(cell, job_of(cell, model, parts), rows, report)
                yield from _measured([cell], arrivals, parts, how)

            yield [cell], alone
        return
    group = Group(cells, model, parts, rows, how.cells_at_once)
    for chunk in group.chunks():

        def together(report: Report, chunk: list[StudyCell] = chunk) -> Iterator[Outcome]:
            yield from _in_smaller_chunks(group, chunk, report, parts, how)

        yield chunk, together


def one_by_one(
    scores: Callable[[StudyCell, Parts], dict[str, Any]], load: Callable[[StudyCell, Path | None], Parts] = load_parts
) -> Callable[..., Tasks]:
    """The tasks of cells that are measured at their last epoch alone, each by itself."""

    def tasks(cells: Sequence[StudyCell], how: StudyRunOptions) -> Tasks:
        for cell in cells:

            def task(report: Report, cell: StudyCell = cell) -> Iterator[Outcome]:
                found = scores(cell, load(cell, how.data_dir))
                report(member_steps(cell))
                yield Outcome(cell, {"epochs": {str(cell.epochs[-1]): found}})

            yield [cell], task

    return tasks


def with_own_rows(scores: Callable[[StudyCell, Path | None], dict[str, Any]]) -> Callable[..., Tasks]:
    """The same of cells whose rows are none of `measure.parts`."""

    def tasks(cells: Sequence[StudyCell], how: StudyRunOptions) -> Tasks:
        for cell in cells:

            def task(report: Report, cell: StudyCell = cell) -> Iterator[Outcome]:
                found = scores(cell, how.data_dir)
                report(member_steps(cell))
                yield Outcome(cell, {"epochs": {str(cell.epochs[-1]): found}})

            yield [cell], task

    return tasks


KINDS: dict[str, Callable[[Sequence[StudyCell], StudyRunOptions], Tasks]] = {
    "trajectory": trajectory_tasks,
    "auto": one_by_one(auto_and_standard_scores),
    "cost": one_by_one(cost_scores),
    "deployment": with_own_rows(deployment_scores),
    "of_methods": with_own_rows(scores_at_equal_steps),
    "of_methods_in_time": with_own_rows(scores_at_equal_time),
    "rival": one_by_one(rival_scores, split_of),
}


def _in_smaller_chunks(
    group: Group, chunk: list[StudyCell], report: Report, parts: Parts, how: StudyRunOptions
) -> Iterator[Outcome]:
    """Trains a chunk, and its halves if the device has no room for it."""
    done: set[StudyCell] = set()
    try:
        for outcome in _measured(chunk, group.train(chunk, report), parts, how):
            done.add(outcome.cell)
            yield outcome
    except jax.errors.JaxRuntimeError as error:
        left = [cell for cell in chunk if cell not in done]
        if OUT_OF_MEMORY not in str(error) or len(left) < 2:
            raise
        half = len(left) // 2
        for smaller in (left[:half], left[half:]):
            yield from _in_smaller_chunks(group, smaller, report, parts, how)


def _measured(
    cells: Sequence[StudyCell], arrivals: Iterator[Arrived | Diverged], parts: Parts, how: StudyRunOptions
) -> Iterator[Outcome]:
    """Scores every arrival; a cell's outcome comes when its last epoch has been scored."""
    waiting: dict[StudyCell, dict[int, tuple[Callable[[], dict[str, Any]], dict[str, Any]]]]
    waiting = {cell: {} for cell in cells}
    targets = {cell: random_targets(cell, parts) for cell in cells}
    with _scorers() as scored:
        try:
            for arrival in arrivals:
                cell = arrival.cell
                if isinstance(arrival, Diverged):
                    del waiting[cell]
                    yield Outcome(cell, {}, arrival.reason)
                    continue
                scores = scored(measure, arrival.members, parts, targets[cell])
                further = {name: FURTHER_SCORES[name](arrival, parts) for name in cell.also}
                waiting[cell][arrival.epochs] = scores, further
                if arrival.epochs != max(cell.epochs):
                    continue
                of_cell = sorted(waiting.pop(cell).items())
                found = {"epochs": {str(epochs): scores() | further for epochs, (scores, further) in of_cell}}
                arrays = {}
                if how.keep_probabilities:
                    arrays = {"members": parts.cut(arrival.members)[0].astype(np.float16), "labels": parts.y_test}
                yield Outcome(cell, found, arrays=arrays)
        except NonFiniteLossError as error:
            (cell,) = waiting  # only a cell that trains alone raises
            yield Outcome(cell, {}, str(error))


@contextmanager
def _scorers() -> Iterator[Callable[..., Callable[[], dict[str, Any]]]]:
    """Calls a function with arguments, in a thread where that pays; what it gives is called for the result."""
    if Backend.current().scores_in_threads:
        with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
            yield lambda *call: pool.submit(*call).result
        return

    def at_once(function: Callable[..., Any], *arguments: Any) -> Callable[[], Any]:
        found = function(*arguments)
        return lambda: found

    yield at_once
