"""`nu-ensembles report`: draws the page of a finished (or unfinished) study or demo again."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nu_ensembles.cli.options import OUTPUT, Json
from nu_ensembles.cli.output import show
from nu_ensembles.errors import InputError


def report(folder: Path, *, out: Annotated[Path | None, Parameter(group=OUTPUT)] = None, json: Json = False) -> None:
    """Draw the page of a study or of the demo again: one self-contained HTML file.

    ```
    nu-ensembles report study-table1
    nu-ensembles report results/table1.json --out table1.html
    ```

    Args:
      folder: Folder of a study or of the demo, or a study's file of results.
      out: Where the page goes; by default report.html in the folder, or beside the file.
      json: Print one JSON object.
    """
    path = out or (folder / "report.html" if folder.is_dir() else folder.with_suffix(".html"))
    if (folder / "predictions.safetensors").is_file():
        _draw_demo(folder, path)
    elif folder.exists():
        _draw_study(folder, path)
    else:
        raise InputError(f"{folder} does not exist: name the folder of a study or of the demo.")
    show({"command": "report", "report": path}, f"The page is {path}", json)


def _draw_demo(folder: Path, path: Path) -> None:
    from nu_ensembles.report.demo_page import demo_page
    from nu_ensembles.report.page import write_page
    from nu_ensembles.studies.demo_result import DemoResult

    write_page(path, demo_page(DemoResult.load(folder)))


def _draw_study(folder: Path, path: Path) -> None:
    from nu_ensembles.studies.conduct import draw
    from nu_ensembles.studies.results import Results

    draw(Results.read(folder), path)
