"""`nu-ensembles report`: draws the page of a finished (or unfinished) study or demo again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nu_ensembles.cli.options import FLAG, OUTPUT, Json
from nu_ensembles.cli.output import show
from nu_ensembles.errors import InputError


def report(
    folder: Path,
    *more: Path,
    mixed: Annotated[bool, FLAG, Parameter(group=OUTPUT)] = False,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    export: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    json: Json = False,
) -> None:
    """Draw the page of a study or of the demo again: one self-contained HTML file.

    Several runs of one study (other data sets, networks, methods or seeds) become one page, and one file of results.

    ```
    nu-ensembles report study-table1
    nu-ensembles report results/table1.json --out table1.html
    nu-ensembles report run-1 run-2 --out both.html --export both.json
    ```

    Args:
      folder: Folder of a study or of the demo, or a study's file of results.
      more: Further runs of the same study.
      mixed: Allow results of several versions, devices or codes on one page.
      out: Where the page goes; by default report.html in the folder, or beside the file.
      export: Where the study's numbers go, too, as one file of results.
      json: Print one JSON object.
    """
    path = out or (folder / "report.html" if folder.is_dir() else folder.with_suffix(".html"))
    for each in (folder, *more):
        if not each.exists():
            raise InputError(f"{each} does not exist: name the folder of a study or of the demo.")
    if (folder / "predictions.safetensors").is_file():
        if more or export:
            raise InputError(f"{folder} holds a demo, which has one page of its own and no file of results.")
        _draw_demo(folder, path)
    else:
        _draw_study((folder, *more), path, mixed, export)
    show({"command": "report", "report": path}, f"The page is {path}", json)


def _draw_demo(folder: Path, path: Path) -> None:
    from nu_ensembles.report.page import write_page
    from nu_ensembles_studies.demo.page import demo_page
    from nu_ensembles_studies.demo.result import DemoResult

    write_page(path, demo_page(DemoResult.load(folder)))


def _draw_study(folders: Sequence[Path], path: Path, mixed: bool, export: Path | None) -> None:
    from nu_ensembles_studies.results.merging import merged
    from nu_ensembles_studies.run.reading import read_results
    from nu_ensembles_studies.run.study_run import draw

    found = [read_results(folder) for folder in folders]
    # The cells of one run may be mixed already, with the user's word for it.
    results = merged(found, mixed) if len(found) > 1 else found[0]
    if export is not None:
        results.export(export)
    draw(results, path)
