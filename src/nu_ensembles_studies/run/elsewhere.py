"""Cells of a study on other processes or machines: tasks go out, results come back, and each is written once."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from nu_ensembles.errors import InputError
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.options import StudyRunOptions
from nu_ensembles_studies.measure.jobs import member_steps
from nu_ensembles_studies.measure.tasks import Outcome
from nu_ensembles_studies.results.makers import maker, refuse_others
from nu_ensembles_studies.run.executors import Executor
from nu_ensembles_studies.run.failing import carried_out, in_one_line, tasks_of


class Ended(NamedTuple):
    """A cell that came back: who measured it, and its share of the time that the task took."""

    outcome: Outcome
    made_by: Mapping[str, str]
    seconds: float


class MeasuredCells(NamedTuple):
    """What a task comes to.

    refusal: what is wrong with data or options for the cells that it did not get to, or "".
    """

    outcomes: list[Outcome]
    made_by: Mapping[str, str]
    seconds: float
    refusal: str = ""


def cells_elsewhere(
    groups: Iterable[list[StudyCell]],
    how: StudyRunOptions,
    executor: Executor,
    fits: Callable[[Sequence[StudyCell]], bool],
    made_before: Sequence[Mapping[str, str]],
) -> Iterator[Ended | InputError]:
    """Cells as they come back; and what is refused of some.

    Args:
      groups: of cells that can train in one program.
      fits: whether a task is expected to end in time, asked when there is room for it.
      made_before: who made the cells that were done before; another maker is refused, unless `how.mixed`.
    """
    makers = list(made_before)
    for cells, found in executor.results(measured, _tasks(groups, how, fits), how):
        if isinstance(found, Exception):
            for cell in cells:
                reason = f"its worker died, {how.retries + 1} times ({in_one_line(found)})"
                yield Ended(Outcome(cell, {}, reason), maker(), 0.0)
            continue
        if not how.mixed:
            refuse_others("The study", makers, found.made_by)
        if dict(found.made_by) not in makers:
            makers.append(dict(found.made_by))
        steps = sum(member_steps(outcome.cell) for outcome in found.outcomes)
        for outcome in found.outcomes:
            yield Ended(outcome, found.made_by, found.seconds * member_steps(outcome.cell) / max(1, steps))
        if found.refusal:
            yield InputError(found.refusal)


def measured(how: StudyRunOptions, cells: Sequence[StudyCell]) -> MeasuredCells:
    """What cells of one program come to; runs on whichever machine."""
    started, outcomes, refusal = time.perf_counter(), list[Outcome](), ""
    for chunk, task in tasks_of(list(cells), how):
        try:
            outcomes += carried_out(task, chunk, lambda n_steps: None, how.stop_on_error)
        except InputError as error:
            refusal = refusal or str(error)
    return MeasuredCells(outcomes, maker(), time.perf_counter() - started, refusal)


def _tasks(
    groups: Iterable[list[StudyCell]], how: StudyRunOptions, fits: Callable[[Sequence[StudyCell]], bool]
) -> Iterator[tuple[StudyCell, ...]]:
    """A task for every cell, so that a worker which dies costs one; with a GPU for as many as train as one program."""
    at_once = how.cells_at_once or (1 if not how.gpus_per_task else 1 << 30)
    for group in groups:
        for start in range(0, len(group), at_once):
            task = tuple(group[start : start + at_once])
            if fits(task):
                yield task
