"""`nu-ensembles predict`: class probabilities of new rows."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from nu_ensembles.cli.options import DATA, FLAG, OUTPUT, Columns, Json, PlaceOptions
from nu_ensembles.cli.output import number, show, table
from nu_ensembles.errors import InputError

if TYPE_CHECKING:
    import numpy as np

_PLACE = PlaceOptions()

# How many rows and classes are shown where the predictions go to no file.
ROWS_SHOWN = 10
CLASSES_SHOWN = 6


def predict(
    model: Path,
    data: Path,
    *,
    drop: Annotated[Columns, Parameter(group=DATA)] = (),
    keep: Annotated[Columns, Parameter(group=DATA)] = (),
    place: PlaceOptions = _PLACE,
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
    resume: Annotated[bool, FLAG, Parameter(group=OUTPUT)] = False,
    json: Json = False,
) -> None:
    """Predict the classes of rows, with probabilities.

    Columns are matched by name: their order does not matter, and the column of labels may be there or not. The file
    has a row for each row of DATA with the prediction, its confidence and the probability of every class. Without one
    the first rows are shown, and with --json all of them.

    ```
    nu-ensembles predict model new.csv --keep id --out predictions.csv
    nu-ensembles predict model new_photos/ --out predictions.parquet
    nu-ensembles predict model new.csv
    zcat new.csv.gz | nu-ensembles predict model - --json
    nu-ensembles predict model rows/ --out predicted/
    nu-ensembles predict model rows/ --out predicted/ --resume
    nu-ensembles predict model rows/ --on ray --out predicted/
    ```

    Rows of several .parquet or .arrow files (a folder, or a pattern such as 'rows/*.parquet') and of a .npy file may be
    more than memory holds; their predictions go to a folder of .parquet files, and so do those of one .parquet file if
    --out is a folder. After a kill, --resume goes on with it.
    With `--on ray` (or processes) every such file of predictions is a task; the same command goes on after a kill.

    Args:
      model: Folder that fit has written.
      data: Rows to predict: a .csv (.tsv, .csv.gz), .npz or .parquet file, - for a csv file from standard input, or a
        folder of images; or a folder of .parquet or .arrow files, a pattern for them, or a .npy file.
      drop: Column to leave out that the training data did not have; repeat the option for more.
      keep: Column to copy to the predictions, such as an identifier; by default those that fit was told to keep.
      out: New .csv, .parquet or .npz file for the predictions; a new folder for those of several files.
      resume: Go on with the folder of a killed run.
      json: Print one JSON object.
    """
    from nu_ensembles.datasets.predictions import check_predictions_path
    from nu_ensembles.storage import claimed

    if place.on != "here" or _is_for_a_folder(data, out):
        show(*_into_folder(model, data, drop, keep, out, resume, place), json)
        return
    if resume:
        raise InputError("--resume goes with --out FOLDER, for rows of several files; leave it out.")
    if out is not None:
        check_predictions_path(out)
    with contextlib.nullcontext() if out is None else claimed(out):
        result, text = _predicted(model, data, drop, keep, out)
    show(result, text, json)


def _is_for_a_folder(data: Path, out: Path | None) -> bool:
    """Whether rows are taken lazily: those of several files, and of one whose predictions go to a folder."""
    from nu_ensembles.datasets.arrow_pieces import PARQUET
    from nu_ensembles.datasets.open_rows import TAKEN_LAZILY, is_table_of_many_files

    ending = data.suffix.lower()
    to_a_folder = ending in PARQUET and out is not None and not out.suffix
    return is_table_of_many_files(data) or ending in TAKEN_LAZILY or to_a_folder


def _into_folder(
    model: Path,
    data: Path,
    drop: Sequence[str],
    keep: Sequence[str],
    out: Path | None,
    resume: bool,
    place: PlaceOptions,
) -> tuple[dict[str, Any], str]:
    """Predictions in a folder, here or elsewhere: what to print, as an object and in words."""
    from nu_ensembles.cli.data import DataDescription
    from nu_ensembles.ensemble import Ensemble
    from nu_ensembles.ensemble.into_folder import predict_into
    from nu_ensembles_studies.run.executors import executor_on
    from nu_ensembles_studies.run.predicting import written_on

    if out is None:
        raise InputError("The predictions of so many rows go to a folder of files; name it, as in --out predicted.")
    ensemble = Ensemble.load(model)
    description = DataDescription.of(ensemble)
    description = dataclasses.replace(description, dropped=(*description.dropped, *drop))
    # Processes elsewhere work in other folders.
    rows = description.taken_lazily(data if place.on == "here" else data.absolute())
    with executor_on(**vars(place)) as executor:
        found = predict_into(
            ensemble,
            rows,
            out.absolute(),
            resume=resume or place.on != "here",
            keep=keep or description.kept,
            verbose=1,
            write_parts=None if place.on == "here" else written_on(executor, model),
        )
    text = f"{found['n_rows']} predictions in {out}, in {found['n_parts']} files"
    earlier = f", {found['n_earlier']} of them from before" if found["n_earlier"] else ""
    return {"command": "predict", "out": out, "classes": ensemble.classes, **found}, f"{text}{earlier}."


def _predicted(
    model: Path, data: Path, drop: Sequence[str], keep: Sequence[str], out: Path | None
) -> tuple[dict[str, Any], str]:
    """What to print, as an object and in words; the predictions are in their file, if one was asked for."""
    from nu_ensembles.cli.data import DataDescription, refuse_other_shape
    from nu_ensembles.datasets.predictions import write_predictions
    from nu_ensembles.ensemble import Ensemble

    ensemble = Ensemble.load(model)
    description = DataDescription.of(ensemble)
    rows = description.read(data, drop=drop, keep=keep or description.kept)
    if ensemble.encoding is None:
        refuse_other_shape(rows.X, data, ensemble.row_shape)
    probabilities = ensemble.predict_proba(rows.rows)
    result: dict[str, Any] = {
        "command": "predict",
        "n_rows": len(probabilities),
        "classes": ensemble.classes,
        "mean_confidence": probabilities.max(axis=1).mean(),
    }
    if out is not None:
        write_predictions(out, probabilities, ensemble.classes, rows.row_names, rows.kept)
        result["out"] = out
        text = f"{len(probabilities)} predictions in {out}, mean confidence {result['mean_confidence']:.3f}."
    else:
        result |= {
            "rows": rows.row_names,
            "predictions": ensemble.classes[probabilities.argmax(axis=1)],
            "probabilities": probabilities,
            **({"kept": rows.kept} if rows.kept else {}),
        }
        names = next(iter(rows.kept.values())).tolist() if rows.kept else rows.row_names
        text = _first_rows(probabilities, ensemble.classes, names)
    return result, text


def _first_rows(probabilities: np.ndarray, classes: np.ndarray, row_names: Sequence[str] | None) -> str:
    header = ["row", "prediction", "confidence", *(f"p_{label}" for label in classes[:CLASSES_SHOWN]), ""]
    lines = []
    for index, row in enumerate(probabilities[:ROWS_SHOWN]):
        name = str(index + 1) if row_names is None else row_names[index]
        shown = [number(float(p), 3) for p in row[:CLASSES_SHOWN]]
        more = "…" if len(classes) > CLASSES_SHOWN else ""
        lines.append([name, str(classes[row.argmax()]), number(float(row.max()), 3), *shown, more])
    text = table(header, lines)
    left = len(probabilities) - len(lines)
    return f"{text}\n… {left} more rows; --out FILE writes all of them." if left else text
