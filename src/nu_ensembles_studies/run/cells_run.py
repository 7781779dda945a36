"""Runs a study: what is missing is trained group by group, and every finished cell is on disk at once.

A cell that fails is stored with its reason and does not stop the others. With a time limit no group is started that is
not expected to end in time; the same command goes on later.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar

from nu_ensembles.errors import InputError
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.options import StudyRunOptions
from nu_ensembles_studies.measure.tasks import KINDS, OUT_OF_MEMORY, Outcome, Task, program_key
from nu_ensembles_studies.results.folder import DONE, FAILED, Record, StudyFolder
from nu_ensembles_studies.results.makers import maker
from nu_ensembles_studies.run.time_left import TimeLeft

Item = TypeVar("Item")


@dataclasses.dataclass(frozen=True)
class StudyProgress:
    """Where a study stands after a run: how many cells are done, failed, and left."""

    n_done: int
    n_failed: int
    n_left: int
    seconds: float

    def __str__(self) -> str:
        failed = f", {self.n_failed} failed" if self.n_failed else ""
        left = f", {self.n_left} left: give the same command again" if self.n_left else ""
        return f"{self.n_done} cells done{failed}{left} (this run took {self.seconds:.0f} s)"


def run_cells(cells: Sequence[StudyCell], folder: StudyFolder, how: StudyRunOptions) -> StudyProgress:
    """Trains and measures what the folder does not hold yet.

    Args:
      cells: of the study, each identity once (`cells_of`).
      folder: after `StudyFolder.start`; whose cells are in it is the caller's business.

    Raises:
      InputError: data are missing, or an option is wrong, for some cells; the others have been trained.
    """
    started = time.perf_counter()
    made_by = maker()
    stored = {cell: folder.load(cell) for cell in cells}
    pending = [_to_train(cell, record) for cell, record in stored.items() if not _settled(cell, record, how)]
    kept = {cell.identity for cell, record in stored.items() if record is not None and record.status == DONE}
    refusal: InputError | None = None
    left = TimeLeft(pending, len(cells) - len(pending), how.verbose)
    for record in stored.values():
        if record is not None and record.status == DONE and dict(record.maker) == made_by:
            left.learn(record.cell, record.seconds)
    for groups in of_one_place(grouped(pending)):
        tasks = [_tasks_of(group, how) for group in groups if left.fits(group[:1], how.time_limit, started)]
        for chunk, task in in_turn(tasks):
            if not left.fits(chunk, how.time_limit, started):
                continue
            left.start(chunk)
            try:
                for outcome in _carried_out(task, chunk, left.advance, how.stop_on_error):
                    seconds = left.finish(outcome.cell)
                    status = FAILED if outcome.reason else DONE
                    record = Record(outcome.cell, status, made_by, outcome.measured, seconds, outcome.reason)
                    if status == DONE or outcome.cell.identity not in kept:  # a shorter training is not given up
                        folder.save(record, outcome.arrays)
                    left.tell(outcome.cell, outcome.reason)
            except InputError as error:
                refusal = refusal or error
    if refusal is not None:
        raise refusal
    return _standing(cells, folder, time.perf_counter() - started)


def grouped(cells: Iterable[StudyCell]) -> list[list[StudyCell]]:
    """Cells that can train in one program, groups in order of first mention."""
    groups: dict[Any, list[StudyCell]] = {}
    for cell in cells:
        key = program_key(cell) if cell.kind == "trajectory" else cell
        groups.setdefault((cell.kind, key), []).append(cell)
    return list(groups.values())


def of_one_place(groups: Sequence[list[StudyCell]]) -> list[list[list[StudyCell]]]:
    """Groups of the same data set, number of labels and network together: what is compared with each other."""
    places: dict[Any, list[list[StudyCell]]] = {}
    for group in groups:
        places.setdefault((group[0].dataset, group[0].n_train, group[0].model), []).append(group)
    # Where every seed has rows of its own, it has groups of its own.
    return [sorted(groups, key=lambda group: min(cell.seed for cell in group)) for groups in places.values()]


def in_turn(sources: Iterable[Iterator[Item]]) -> Iterator[Item]:
    """One item of every source, then the next of every source, and so on.

    A study that is stopped early has then trained all methods on its first seeds, not one method on all of them.
    """
    left = list(sources)
    while left:
        for source in list(left):
            try:
                yield next(source)
            except StopIteration:
                left.remove(source)


def _settled(cell: StudyCell, record: Record | None, how: StudyRunOptions) -> bool:
    if record is None:
        return False
    return record.covers(cell) or (record.status == FAILED and not how.retry_failed)


def _to_train(cell: StudyCell, record: Record | None) -> StudyCell:
    """The cell with the epochs of an earlier record among its own, so that nothing measured is lost."""
    if record is None or record.status == FAILED:
        return cell
    return dataclasses.replace(cell, epochs=cell.epochs + record.cell.epochs)


def _tasks_of(group: list[StudyCell], how: StudyRunOptions) -> Iterator[tuple[list[StudyCell], Task]]:
    """The tasks of a group; if setting it up fails, a task that fails for all its cells."""
    try:
        yield from KINDS[group[0].kind](group, how)
    except Exception as error:
        yield group, partial(_raising, error)


def _raising(error: Exception, _: object) -> Iterator[Outcome]:
    raise error
    yield  # a task gives outcomes


def _carried_out(
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
                yield Outcome(cell, {}, _in_one_line(error))


def _in_one_line(error: Exception) -> str:
    if OUT_OF_MEMORY in str(error):
        return "the device ran out of memory"
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text[:400]}"


def _standing(cells: Sequence[StudyCell], folder: StudyFolder, seconds: float) -> StudyProgress:
    records = [folder.load(cell) for cell in cells]
    n_done = sum(r is not None and r.covers(c) for c, r in zip(cells, records, strict=True))
    n_failed = sum(r is not None and r.status == FAILED for r in records)
    return StudyProgress(n_done, n_failed, len(cells) - n_done - n_failed, seconds)
