"""`nu-ensembles report`: a page on one's own rows, or that of a study or demo once more."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from nu_ensembles.cli.options import DATA, FLAG, OUTPUT, Columns, Json
from nu_ensembles.cli.output import show
from nu_ensembles.errors import InputError


def report(
    folder: Path,
    *data: Path,
    target: Annotated[str | None, Parameter(group=DATA)] = None,
    drop: Annotated[Columns, Parameter(group=DATA)] = (),
    mixed: Annotated[bool, FLAG, Parameter(group=OUTPUT)] = False,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    export: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    json: Json = False,
) -> None:
    """Make a page on your own rows, or draw that of a study or the demo again: one self-contained HTML file.

    With a model and a file of rows the page says how right the ensemble is on them, whether its probabilities mean what
    they say, which rows to look at, and how it was trained. Rows without labels get a page, too: of confidence,
    disagreement, and what is unlike the training rows. With folders of studies, several runs become one page.

    ```
    nu-ensembles report model test.csv
    nu-ensembles report model new_photos/ --out page.html
    nu-ensembles report study-table1
    nu-ensembles report results/table1.json --out table1.html
    nu-ensembles report run-1 run-2 --out both.html --export both.json
    ```

    Args:
      folder: Folder of a model, of a study or of the demo, or a study's file of results.
      data: Rows to report on: a .csv, .npz or .parquet file, or a folder of images. Of a study further runs.
      target: Column that holds the labels; by default the one that the model was trained on, if it is there.
      drop: Column to leave out that the training data did not have; repeat the option for more.
      mixed: Allow results of several versions, devices or codes on one page.
      out: Where the page goes; by default test-report.html for test.csv, or report.html in the folder of a study.
      export: Where the study's numbers go, too, as one file of results.
      json: Print one JSON object.
    """
    if not folder.exists():
        raise InputError(f"{folder} does not exist: name the folder of a model, of a study or of the demo.")
    if is_model(folder):
        if len(data) != 1:
            given = f"{len(data)} files were given" if data else "give the rows to report on, too"
            raise InputError(f"{folder} holds a model, whose page is of one file of rows: {given}.")
        page = out or Path(f"{_stem(data[0])}-report.html")
        found = _draw_own(folder, data[0], page, target, drop)
        show({"command": "report", "report": page, **found}, f"The page is {page}", json)
        return
    if target is not None or drop:
        raise InputError(f"{folder} holds no model, so --target and --drop mean nothing; leave them out.")
    page = out or (folder / "report.html" if folder.is_dir() else folder.with_suffix(".html"))
    for each in data:
        if not each.exists():
            raise InputError(f"{each} does not exist: name the folder of a study or of the demo.")
    if (folder / "predictions.safetensors").is_file():
        if data or export:
            raise InputError(f"{folder} holds a demo, which has one page of its own and no file of results.")
        _draw_demo(folder, page)
    else:
        _draw_study((folder, *data), page, mixed, export)
    show({"command": "report", "report": page}, f"The page is {page}", json)


def is_model(folder: Path) -> bool:
    """Whether a folder holds a saved ensemble, whole or not."""
    return (folder / "manifest.json").is_file()


def _stem(data: Path) -> str:
    return data.name.split(".")[0].strip("-") or "rows"


def _draw_own(folder: Path, data: Path, page: Path, target: str | None, drop: Sequence[str]) -> dict[str, object]:
    """Writes the page of a model and a user's rows; what is said of it in JSON."""
    from nu_ensembles.cli.data import DataDescription, read_with_labels
    from nu_ensembles.estimator import EnsembleClassifier
    from nu_ensembles.estimator.reporting import given_of
    from nu_ensembles.report.own import own_page
    from nu_ensembles.report.page import write_page

    classifier = EnsembleClassifier.load(folder)
    ensemble = classifier.ensemble_
    rows = read_with_labels(DataDescription.of(ensemble), data, target, drop, ensemble)
    given = given_of(classifier, rows.rows, rows.y, data.name, rows.row_names)
    write_page(page, own_page(given))
    return {"n_rows": given.n_rows, "n_labelled": len(given.labelled)}


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
