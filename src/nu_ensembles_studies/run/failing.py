"""Tasks whose failures are outcomes: what goes wrong with some cells does not stop the others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

from nu_ensembles.errors import InputError
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.options import StudyRunOptions
from nu_ensembles_studies.measure.tasks import KINDS, OUT_OF_MEMORY, Outcome, Task


def tasks_of(group: list[StudyCell], how: StudyRunOptions) -> Iterator[tuple[list[StudyCell], Task]]:
    """The tasks of a group; if setting it up fails, a task that fails for all its cells."""
    try:
        yield from KINDS[group[0].kind](group, how)
    except Exception as error:
        yield group, partial(_raising, error)


def _raising(error: Exception, _: object) -> Iterator[Outcome]:
    raise error
    yield  # a task gives outcomes


def carried_out(
    task: Task, chunk: Sequence[StudyCell], report: Callable[[int], None], stop_on_error: bool
) -> Iterator[Outcome]:
    """A task's outcomes; what it did not get to because of an error is an outcome, too."""
    done: set[StudyCell] = set()
    try:
        for outcome in task(report):
            done.add(outcome.cell)
            yield outcome
    except Exception as error:
        if stop_on_error or isinstance(error, InputError):
            raise  # missing data or a wrong option: no cell's own fault
        for cell in chunk:
            if cell not in done:
                yield Outcome(cell, {}, in_one_line(error))


def in_one_line(error: Exception) -> str:
    if OUT_OF_MEMORY in str(error):
        return "the device ran out of memory"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"
