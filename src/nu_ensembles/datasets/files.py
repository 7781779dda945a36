"""The one place that reads a user's data: `.csv`, `.tsv`, `.npz`, `.parquet`, or a folder of images by class."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from nu_ensembles.checks import checked
from nu_ensembles.datasets.csv_files import read_csv
from nu_ensembles.datasets.formats import refuse_another_format
from nu_ensembles.datasets.image_files import IMAGE_ENDINGS, read_image_folder
from nu_ensembles.datasets.npz_files import read_npz
from nu_ensembles.datasets.parquet_files import read_parquet
from nu_ensembles.datasets.table import ReadOptions, Table
from nu_ensembles.datasets.text_source import STANDARD_INPUT
from nu_ensembles.errors import DamagedFileError, InputError, unknown_name
from nu_ensembles.tables import ColumnTypes

_READERS = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".csv.gz": read_csv,
    ".tsv.gz": read_csv,
    ".npz": read_npz,
    ".parquet": read_parquet,
}
# What people have instead.
_ADVICE = {
    ".gz": "give it the ending .csv.gz or .tsv.gz, for what it is",
    ".txt": "give it the ending .csv, if it is a table with a line of column names",
    ".xlsx": "save it as csv",
    ".xls": "save it as csv",
    ".json": "save it as csv or parquet",
    ".feather": "save it as parquet",
    ".arrow": "save it as parquet",
    ".npy": "save rows and labels with numpy.savez(path, X=rows, y=labels)",
    ".pkl": "save it as csv, parquet or npz, in which no program can hide",
    ".zip": "unpack it first",
}


@checked
def read_table(
    path: str | os.PathLike[str],
    target: str | None = None,
    *,
    columns: Sequence[str] | None = None,
    drop: Sequence[str] = (),
    ignore: Sequence[str] = (),
    image_size: tuple[int, int] | None = None,
    channels: int | None = None,
    keep: Sequence[str] = (),
    column_types: ColumnTypes | None = None,
) -> Table:
    """Reads rows, and labels where there are any, from a file or a folder of images.

        train = read_table("train.csv", target="species")
        unlabeled = read_table("more.csv", columns=train.feature_names, ignore=["species"])

    Args:
      path: a `.csv` or `.tsv` file with a header (also with `.gz`, or "-" for standard input), an `.npz` file (arrays X
        and y), a `.parquet` file, or a folder of images (sub-folder names are the labels; a flat folder has none).
      target: the column (npz: the array) of labels. Without it csv files and tables in parquet give no
        labels, while npz files (`y` or `labels`), hub parquet images (`label`) and folders do.
      columns: the features to expect, by name and in this order; others are ignored with a note.
      drop: columns to leave out, which must be there.
      ignore: columns to leave out where they are there, e.g. the target in a file of unlabelled rows.
      image_size: (height, width) to resize images to.
      channels: 1 for grey or 3 for colour images; by default colour unless all are grey.
      keep: columns to hand over as text, beside the features, such as an identifier; they must be there, unless
        `ignore` names them too.
      column_types: what columns are, where their cells do not tell; see `nu.fit`.

    Raises:
      InputError: the file cannot be used as it is; `DamagedFileError` if it is truncated or unreadable.
    """
    options = ReadOptions(target, columns, drop, ignore, image_size, channels, keep, column_types)
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"The path of a file is text, not a {type(path).__name__}.")
    path = Path(path)
    if path == STANDARD_INPUT:
        return read_csv(path, options)
    if not path.exists():
        raise InputError(f"{path} does not exist: check the path.")
    if not os.access(path, os.R_OK):
        raise InputError(f"{path} cannot be read: check its permissions.")
    if path.is_dir():
        return read_image_folder(path, options)
    ending = path.suffix.lower()
    if ending in IMAGE_ENDINGS:
        raise InputError(f"{path} is a single image: give the folder that holds it.")
    kind = "".join(path.suffixes[-2:]).lower() if ending == ".gz" else ending
    if kind not in _READERS:
        raise _unknown_type(path, kind)
    if path.stat().st_size == 0:
        raise DamagedFileError(f"{path} is empty (0 bytes): save or copy it again.")
    refuse_another_format(path, ending)
    try:
        return _READERS[kind](path, options)
    except MemoryError:
        raise InputError(f"{path} does not fit into memory: give fewer rows or columns.") from None


def _unknown_type(path: Path, kind: str) -> InputError:
    advice = _ADVICE.get(path.suffix.lower())
    if advice is None:
        return unknown_name(f"file type of {path}:", kind, _READERS)
    return InputError(f"Unknown file type of {path}: {kind!r}; {advice}.")
