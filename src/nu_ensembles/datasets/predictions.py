"""Writes predictions for other programs: a row for each input row, a column for each class."""

from __future__ import annotations

import csv
import io
import os
import re
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles.checks import check_array, check_numbers, checked
from nu_ensembles.errors import InputError, MissingExtraError, unknown_name
from nu_ensembles.storage import refuse_existing, write_bytes

_FORMULA = re.compile(r"[=+\-@\t\r]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@checked
def write_predictions(
    path: str | os.PathLike[str],
    probabilities: np.ndarray,
    classes: Sequence[Any] | np.ndarray,
    row_names: Sequence[str] | None = None,
    kept: Mapping[str, np.ndarray] | None = None,
) -> None:
    """Writes `prediction`, `confidence` and `p_<class>` for each row, all at once or not at all.

    Args:
      path: a new `.csv`, `.parquet` or `.npz` file.
      probabilities: `[N, C]`.
      classes: the C labels.
      row_names: what the rows are, e.g. `Table.row_names`; written as a first column `file`.
      kept: further columns `[N]`, e.g. `Table.kept`, which come first.
    """
    check_predictions_path(path)
    columns = prediction_columns(probabilities, classes, row_names, kept)
    write_bytes(path, _ENCODERS[Path(path).suffix.lower()](columns))


def prediction_columns(
    probabilities: np.ndarray,
    classes: Sequence[Any] | np.ndarray,
    row_names: Sequence[str] | None = None,
    kept: Mapping[str, np.ndarray] | None = None,
) -> dict[str, np.ndarray]:
    """The columns `[N]` that are written; arguments as in `write_predictions`."""
    probabilities, labels = check_numbers(probabilities, "probabilities"), check_array(classes, "classes")
    # Half precision and objects are no types of a parquet or npz file.
    probabilities = probabilities.astype(np.result_type(probabilities.dtype, np.float32), copy=False)
    labels = labels.astype(np.str_) if labels.dtype.kind == "O" and labels.ndim else labels
    if probabilities.ndim != 2 or labels.shape != probabilities.shape[1:]:
        raise InputError(
            f"Probabilities of shape {probabilities.shape} do not fit {labels.size} classes: "
            "give an array [rows, classes]."
        )
    if row_names is not None and len(row_names) != len(probabilities):
        raise InputError(f"There are {len(row_names)} row names for {len(probabilities)} rows: give one for each.")
    columns = {} if row_names is None else {"file": np.array(row_names, dtype=np.str_)}
    own = {"file", "prediction", "confidence", *(f"p_{label}" for label in labels)}
    for name, column in (kept or {}).items():
        if not isinstance(name, str) or np.shape(column) != (len(probabilities),):
            raise InputError(f"The column {name!r} cannot be kept: give it a name, and a value for each row.")
        if name in own:
            raise InputError(f"The column {name!r} cannot be kept, because the predictions have one of that name.")
        columns[name] = column
    columns["prediction"] = labels[probabilities.argmax(axis=1)]
    columns["confidence"] = probabilities.max(axis=1)
    return columns | {f"p_{label}": probabilities[:, index] for index, label in enumerate(labels)}


def check_predictions_path(path: str | os.PathLike[str]) -> None:
    """Raises if predictions could not be written there; cheap, to be asked before they are computed."""
    ending = Path(path).suffix.lower()
    if ending not in _ENCODERS:
        raise unknown_name(f"file type of {os.fspath(path)}:", ending, _ENCODERS)
    if ending == ".parquet":
        _pyarrow()
    refuse_existing(path)
    if not Path(path).absolute().parent.is_dir():
        raise InputError(f"The folder of {os.fspath(path)} does not exist: create it or choose another.")


def _csv(columns: dict[str, np.ndarray]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")
    columns = {_as_text(name): _without_formulas(column) for name, column in columns.items()}
    writer.writerow(columns)
    # Scalars of NumPy print the shortest digits that read back as the same number of the same width.
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def _without_formulas(column: np.ndarray) -> np.ndarray:
    return np.array([_as_text(cell) for cell in column.tolist()], np.str_) if column.dtype.kind == "U" else column


def _as_text(cell: str) -> str:
    """A cell that a spreadsheet would run as a formula, with the apostrophe that makes it text there."""
    return f"'{cell}" if _FORMULA.match(cell) and not _NUMBER.fullmatch(cell) else cell


def _npz(columns: dict[str, np.ndarray]) -> bytes:
    file = io.BytesIO()
    # Not np.savez: it takes names as keywords, and its own "file" would clash with ours.
    with zipfile.ZipFile(file, "w") as archive:
        for name, column in columns.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, column, allow_pickle=False)
    return file.getvalue()


def parquet_bytes(columns: dict[str, np.ndarray]) -> bytes:
    """A parquet file of these columns."""
    pa, pq = _pyarrow()
    file = io.BytesIO()
    arrays = [pa.array(column.tolist() if column.dtype.kind == "U" else column) for column in columns.values()]
    pq.write_table(pa.Table.from_arrays(arrays, names=list(columns)), file, write_page_checksum=True)
    return file.getvalue()


def rows_in_parquet(path: Path) -> int | None:
    """How many rows a parquet file has; None for what is no such file."""
    pa, pq = _pyarrow()
    try:
        return int(pq.read_metadata(path).num_rows)
    except (pa.ArrowException, OSError):
        return None


def _pyarrow() -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise MissingExtraError("Writing parquet files", "parquet") from error
    return pyarrow, pyarrow.parquet


_ENCODERS = {".csv": _csv, ".npz": _npz, ".parquet": parquet_bytes}
