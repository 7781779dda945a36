"""From a study's name and options to a folder of results: declare, run, export, draw."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path

from nu_ensembles import storage
from nu_ensembles.errors import InputError
from nu_ensembles.studies.folder import STUDY, StudyFolder
from nu_ensembles.studies.measurements import Context
from nu_ensembles.studies.merging import usable
from nu_ensembles.studies.options import RunOptions, StudyOptions
from nu_ensembles.studies.protocols import check_names
from nu_ensembles.studies.provenance import maker, refuse_others
from nu_ensembles.studies.registry import find_study
from nu_ensembles.studies.results import Results
from nu_ensembles.studies.runner import Progress, run_cells
from nu_ensembles.studies.study import cells_of

RESULTS, REPORT = "results.json", "report.html"


def conduct(
    name: str,
    options: StudyOptions,
    out: str | Path,
    how: RunOptions | None = None,
    *,
    export: str | Path | None = None,
    page: bool = True,
) -> tuple[Results, Progress]:
    """Runs what is missing of a study and writes its results.

    Args:
      name: of the study.
      options: what it measures.
      out: its folder; finished cells in it are kept.
      how: time limit, retries, and so on.
      export: another place for the results than `results.json` in the folder.
      page: draw `report.html`, too.
    """
    from nu_ensembles.training.run_folder import environment

    how = how or RunOptions()
    study = find_study(name)
    options = study.complete(options)
    check_names(options)
    folder, cells = StudyFolder(out), cells_of(study.declare(options))
    if not cells:
        raise InputError(
            "Nothing is to be trained under these options: the paper published no hyper-parameters for them; ask for "
            "--protocols matched."
        )
    earlier = [] if how.start_from is None else usable(Results.read(how.start_from), study, cells)
    if not how.mixed:
        refuse_others(how.start_from, (record.maker for record in earlier), maker())
    started = time.perf_counter()
    if folder.folder.is_file():
        raise InputError(f"{folder.folder} is a file: choose another --out, a folder.")
    folder.folder.mkdir(parents=True, exist_ok=True)
    with storage.alone_in(folder.folder):
        if not how.mixed:
            folder.refuse_other_makers(maker())
        folder.start(name, options.to_dict(), command_line(name, options), environment())
        for record in earlier:
            if folder.load(record.cell) is None:
                folder.save(record)
        context = Context(options.data_dir, how.cells_at_once, how.keep_probabilities)
        try:
            progress = run_cells(cells, folder, context, how)
        except InputError:
            # Some cells could not be tried: what the others found is written first.
            _add_time(folder, time.perf_counter() - started)
            if folder.records():
                _write(folder, export, page)
            raise
        _add_time(folder, time.perf_counter() - started)
    return _write(folder, export, page), progress


def _write(folder: StudyFolder, export: str | Path | None, page: bool) -> Results:
    """Writes the results of a folder, and its page; returns them."""
    results = Results.read(folder.folder)
    results.export(export or folder.folder / RESULTS)
    if page:
        _draw_if_possible(results, folder.folder / REPORT)
    return results


def draw(results: Results, path: str | Path) -> None:
    """Draws a study's page."""
    from nu_ensembles.report.page import write_page
    from nu_ensembles.report.study_page import study_page

    write_page(path, study_page(results))


def _draw_if_possible(results: Results, path: Path) -> None:
    """The numbers matter more: where the packages for pages are absent, the page can be drawn elsewhere."""
    try:
        draw(results, path)
    except ModuleNotFoundError as error:
        print(f"No page was drawn, because {error.name} is missing here; `report` draws it elsewhere.", file=sys.stderr)


def command_line(name: str, options: StudyOptions) -> str:
    """The command that runs this study again."""
    return shlex.join(["nu-ensembles", "study", name, *options.as_arguments()])


def _add_time(folder: StudyFolder, seconds: float) -> None:
    about = folder.about()
    total = about["seconds"] + seconds
    storage.write_json(folder.folder / STUDY, about | {"seconds": round(total, 1)})
