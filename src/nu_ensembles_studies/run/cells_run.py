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
from nu_ensembles_studies.measure.tasks import program_key
from nu_ensembles_studies.results.folder import DONE, FAILED, Record, StudyFolder
from nu_ensembles_studies.results.makers import maker
from nu_ensembles_studies.run.elsewhere import Ended, cells_elsewhere
from nu_ensembles_studies.run.executors import Executor
from nu_ensembles_studies.run.failing import carried_out, tasks_of
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


def run_cells(
    cells: Sequence[StudyCell], folder: StudyFolder, how: StudyRunOptions, executor: Executor | None = None
) -> StudyProgress:
    """Trains and measures what the folder does not hold yet.

    Args:
      cells: of the study, each identity once (`cells_of`).
      folder: after `StudyFolder.start`; whose cells are in it is the caller's business.
      executor: where cells are trained; None for here, one after another, those of a program side by side.

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
    in_time = partial(left.fits, time_limit=how.time_limit, started=started)
    places = of_one_place(grouped(pending))
    if executor is None:
        came = _here(places, how, left, in_time)
    else:
        before = [record.maker for record in stored.values() if record is not None]
        groups = (group for of_place in places for group in of_place)
        came = cells_elsewhere(groups, how, executor, in_time, before)
    for ended in came:
        if isinstance(ended, InputError):
            refusal = refusal or ended
            continue
        outcome = ended.outcome
        left.ended(outcome.cell, ended.seconds)
        status = FAILED if outcome.reason else DONE
        record = Record(outcome.cell, status, ended.made_by, outcome.measured, ended.seconds, outcome.reason)
        if status == DONE or outcome.cell.identity not in kept:  # a shorter training is not given up
            folder.save(record, outcome.arrays)
        left.tell(outcome.cell, outcome.reason)
    if refusal is not None:
        raise refusal
    return _standing(cells, folder, time.perf_counter() - started)


def _here(
    places: Iterable[list[list[StudyCell]]],
    how: StudyRunOptions,
    left: TimeLeft,
    in_time: Callable[[Sequence[StudyCell]], bool],
) -> Iterator[Ended | InputError]:
    """Cells as they are measured in this process, those of a program side by side; and what is refused of some."""
    made_by = maker()
    for groups in places:
        tasks = [tasks_of(group, how) for group in groups if in_time(group[:1])]
        for chunk, task in in_turn(tasks):
            if not in_time(chunk):
                continue
            left.start(chunk)
            try:
                for outcome in carried_out(task, chunk, left.advance, how.stop_on_error):
                    yield Ended(outcome, made_by, left.share(outcome.cell))
            except InputError as error:
                yield error


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


def _standing(cells: Sequence[StudyCell], folder: StudyFolder, seconds: float) -> StudyProgress:
    records = [folder.load(cell) for cell in cells]
    n_done = sum(r is not None and r.covers(c) for c, r in zip(cells, records, strict=True))
    n_failed = sum(r is not None and r.status == FAILED for r in records)
    return StudyProgress(n_done, n_failed, len(cells) - n_done - n_failed, seconds)
