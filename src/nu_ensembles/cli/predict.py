"""`nu-ensembles predict`: class probabilities of new rows."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from nu_ensembles.cli.options import DATA, OUTPUT, Columns, Json
from nu_ensembles.cli.output import number, show, table

if TYPE_CHECKING:
    import numpy as np

# How many rows and classes are shown where the predictions go to no file.
ROWS_SHOWN = 10
CLASSES_SHOWN = 6


def predict(
    model: Path,
    data: Path,
    *,
    drop: Annotated[Columns, Parameter(group=DATA)] = (),
    keep: Annotated[Columns, Parameter(group=DATA)] = (),
    out: Annotated[Path | None, Parameter(group=OUTPUT)] = None,
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
    ```

    Args:
      model: Folder that fit has written.
      data: Rows to predict: a .csv (.tsv, .csv.gz), .npz or .parquet file, - for a csv file from standard input, or a
        folder of images.
      drop: Column to leave out that the training data did not have; repeat the option for more.
      keep: Column to copy to the predictions, such as an identifier; by default those that fit was told to keep.
      out: New .csv, .parquet or .npz file for the predictions.
      json: Print one JSON object.
    """
    from nu_ensembles.datasets.predictions import check_predictions_path
    from nu_ensembles.storage import claimed

    if out is not None:
        check_predictions_path(out)
    with contextlib.nullcontext() if out is None else claimed(out):
        result, text = _predicted(model, data, drop, keep, out)
    show(result, text, json)


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
