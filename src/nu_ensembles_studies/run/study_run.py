"""From a study's name and options to a folder of results: declare, run, export, draw."""

from __future__ import annotations

import contextlib
import shlex
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

from nu_ensembles.errors import InputError
from nu_ensembles.lifecycle.folder import LifeFolder
from nu_ensembles.training import environment
from nu_ensembles_studies.declare.options import StudyOptions, StudyRunOptions
from nu_ensembles_studies.declare.protocols import check_names
from nu_ensembles_studies.declare.study import cells_of
from nu_ensembles_studies.registry import find_study
from nu_ensembles_studies.results.folder import StudyFolder
from nu_ensembles_studies.results.makers import maker, refuse_others
from nu_ensembles_studies.results.merging import usable
from nu_ensembles_studies.results.results import Results
from nu_ensembles_studies.run.cells_run import StudyProgress, run_cells
from nu_ensembles_studies.run.executors import Executor, executor_on
from nu_ensembles_studies.run.reading import read_results

RESULTS, REPORT = "results.json", "report.html"


def run_study(
    name: str,
    options: StudyOptions,
    out: str | Path,
    how: StudyRunOptions | None = None,
    *,
    export: str | Path | None = None,
    page: bool = True,
) -> tuple[Results, StudyProgress]:
    """Runs what is missing of a study and writes its results.

    Args:
      name: of the study.
      options: what it measures.
      out: its folder; finished cells in it are kept.
      how: time limit, retries, and so on.
      export: another place for the results than `results.json` in the folder.
      page: draw `report.html`, too.
    """
    how = how or StudyRunOptions()
    study = find_study(name)
    options = study.complete(options)
    check_names(options, study.methods, study.protocols)
    folder, cells = StudyFolder(out), cells_of(study.declare(options))
    if not cells:
        raise InputError(
            "Nothing is to be trained under these options: the paper published no hyper-parameters for them; ask for "
            "--protocols matched."
        )
    earlier = [] if how.start_from is None else usable(read_results(how.start_from), study, cells)
    if not how.mixed:
        refuse_others(how.start_from, (record.maker for record in earlier), maker())
    started = time.perf_counter()
    if folder.folder.is_file():
        raise InputError(f"{folder.folder} is a file: choose another --out, a folder.")
    with LifeFolder(folder.folder, "study"):
        if not how.mixed and how.on == "here":  # else whoever trains says who it is
            folder.refuse_other_makers(maker())
        folder.start(name, options.to_dict(), command_line(name, options, how), environment())
        for record in earlier:
            if folder.load(record.cell) is None:
                folder.save(record)
        try:
            with contextlib.ExitStack() as stack:
                executor = None if how.on == "here" else stack.enter_context(_executor(how))
                progress = run_cells(cells, folder, how, executor)
        except InputError:
            # Some cells could not be tried: what the others found is written first.
            folder.add_time(time.perf_counter() - started)
            if folder.records():
                _write(folder, export, page)
            raise
        folder.add_time(time.perf_counter() - started)
    return _write(folder, export, page), progress


def _executor(how: StudyRunOptions) -> AbstractContextManager[Executor]:
    return executor_on(how.on, how.address, how.cpus_per_task, how.gpus_per_task, how.retries)


def command_line(name: str, options: StudyOptions, how: StudyRunOptions) -> str:
    """The command that runs this study again; where the data are is the user's own business."""
    data = [] if how.data_dir is None else ["--data-dir", "FOLDER"]
    return shlex.join(["nu-ensembles", "study", name, *options.as_arguments(), *data])


def _write(folder: StudyFolder, export: str | Path | None, page: bool) -> Results:
    """Writes the results of a folder, and its page; returns them."""
    results = read_results(folder.folder)
    results.export(export or folder.folder / RESULTS)
    if page:
        try:
            draw(results, folder.folder / REPORT)
        except ModuleNotFoundError as error:
            # The numbers matter more: where the packages for pages are absent, the page can be drawn elsewhere.
            missing = f"No page was drawn, because {error.name} is missing here"
            print(f"{missing}; `nu-ensembles report` draws it elsewhere.", file=sys.stderr)
    return results


def draw(results: Results, path: str | Path) -> None:
    """Draws a study's page."""
    from nu_ensembles.report.page import write_page
    from nu_ensembles_studies.pages.study_page import study_page

    write_page(path, study_page(results))
