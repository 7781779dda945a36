"""Reads parquet files: tables, or a column of encoded images as dataset hubs store them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles.datasets.columns import check_names, feature_columns
from nu_ensembles.datasets.image_files import decode_images
from nu_ensembles.datasets.table import ReadOptions, Table, require_rows, table_of
from nu_ensembles.datasets.unpacking import MOST_TIMES
from nu_ensembles.errors import DamagedFileError, InputError, MissingExtraError
from nu_ensembles.tables import rows_of

# The row index that pandas stores beside the data is not a feature.
_INDEX = re.compile(r"__index_level_\d+__")
_HUB_LABEL = "label"
# Values that may stand in however small a file: many columns of zeros are honest.
MOST_REPEATED = 1 << 27


def read_parquet(path: Path, options: ReadOptions) -> Table:
    """Reads a parquet file; a column with the fields `bytes` and `path` makes its rows images."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Reading parquet files", "parquet") from error
    try:
        # Not pyarrow's read_table: that one takes "key=value" in a folder's name for a further column.
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            _refuse_what_unpacks_without_end(path, file.metadata.num_rows * file.metadata.num_columns)
            data = file.read()
        # Looks at the text too, which would else fail when it is first used.
        data.validate(full=True)
        names = [name for name in data.column_names if not _INDEX.fullmatch(name)]
    except pa.ArrowMemoryError:
        raise MemoryError from None
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedFileError(
            f"{path} is not a complete parquet file: save it again or restore it from a copy."
        ) from error
    check_names(str(path), names, options)
    left_out = {options.target, *options.drop, *options.ignore, *options.keep}
    images = [n for n in names if n not in left_out and _holds_images(data.schema.field(n).type)]
    require_rows(str(path), data.num_rows)
    if images:
        return _read_images(path, data, images, options)
    features = feature_columns(str(path), names, options)
    raw = rows_of(data.select(features), str(path))
    raw = raw.declared({name: kind for name, kind in options.declared.items() if name in features}, str(path))
    y = None if options.target is None else _labels(path, options.target, data.column(options.target))
    to_keep = [name for name in options.keep if name in names]
    kept = {name: np.array(["" if v is None else str(v) for v in data.column(name).to_pylist()]) for name in to_keep}
    return table_of(raw, y, kept)


def _refuse_what_unpacks_without_end(path: Path, n_values: int) -> None:
    """Before anything is read: runs of one value take no room, so a kilobyte can stand for gigabytes."""
    size = path.stat().st_size
    if n_values > MOST_REPEATED and 8 * n_values > MOST_TIMES * size:
        raise InputError(
            f"{path} unpacks to {8 * n_values // size} times its size: give fewer rows, or the columns that differ."
        )


def _read_images(path: Path, data: Any, names: list[str], options: ReadOptions) -> Table:
    if len(names) > 1:
        raise InputError(f"{path} has several columns of images ({', '.join(names)}): drop all but one.")
    target = options.target
    if target is None and _HUB_LABEL in data.column_names and _HUB_LABEL not in (*options.ignore, *options.drop):
        target = _HUB_LABEL
    cells = data.column(names[0]).to_pylist()
    files = [(f"row {row} of {path}", (cell or {}).get("bytes") or b"") for row, cell in enumerate(cells, 1)]
    y = None if target is None else _labels(path, target, data.column(target))
    return Table(decode_images(files, options.image_size, options.channels), y, None, "images")


def _holds_images(kind: Any) -> bool:
    import pyarrow.types as types

    if not types.is_struct(kind) or kind.get_field_index("bytes") < 0:
        return False
    inner = kind.field("bytes").type
    return types.is_binary(inner) or types.is_large_binary(inner)


def _labels(path: Path, name: str, column: Any) -> np.ndarray:
    """A column as labels `[N]`: int64, bool, float64 or text; objects, if some are None."""
    import pyarrow as pa

    types = pa.types
    if types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if column.null_count:
        filled = _labels(path, name, column.drop_null()).tolist() if column.null_count < len(column) else []
        labels = iter(filled)
        return np.array([None if value is None else next(labels) for value in column.to_pylist()], object)
    if types.is_string(column.type) or types.is_large_string(column.type):
        return np.array(column.to_pylist(), dtype=np.str_)
    if types.is_integer(column.type):
        # Unsigned numbers beyond 2^63 stay what they are.
        return column.to_numpy() if types.is_uint64(column.type) else column.cast(pa.int64()).to_numpy()
    if types.is_boolean(column.type) or types.is_floating(column.type):
        return column.to_numpy()
    raise InputError(f"The target {name!r} of {path} is of type {column.type}: use whole numbers or text.")
