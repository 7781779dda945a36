"""Opens rows that are named and may be more than memory holds: nothing but their number and columns is read."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles.checks import checked, is_path, shown
from nu_ensembles.datasets.array_rows import ImageRows, MappedRows, mapped_array
from nu_ensembles.datasets.arrow_pieces import ARROW, PARQUET, ArrowPiece, FragmentPiece, ParquetPiece, Piece
from nu_ensembles.datasets.arrow_rows import ArrowRows
from nu_ensembles.datasets.image_files import IMAGE_ENDINGS
from nu_ensembles.datasets.table import ReadOptions
from nu_ensembles.errors import InputError
from nu_ensembles.rows import LazyRows

_ENDINGS = ", ".join((*PARQUET, *ARROW))
# Files of which rows are taken as they are needed, although `read_table` may read some of them.
TAKEN_LAZILY = (*ARROW, ".npy")


def is_source(rows: Any) -> bool:
    """Whether rows are named, mapped or lazy, rather than in memory."""
    return isinstance(rows, str | os.PathLike | np.memmap | LazyRows) or _is_data_set(rows)


@checked
def open_rows(
    source: Any,
    what: str = "X_unlabeled",
    *,
    columns: Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    image_size: tuple[int, int] | None = None,
    channels: int | None = None,
) -> LazyRows:
    """Rows that are taken when they are needed.

        nu.fit("mlp", x, y, open_rows("rows"))

    Args:
      source: a folder of `.parquet` files, of Arrow files (`.arrow`, `.feather`) or of images; one such file, or a
        `.npy` file; a pattern such as `rows/*.parquet`, whose files are taken in the order of their names; a
        `pyarrow.dataset.Dataset`; a memory-mapped array.
      what: to call them in messages.
      columns: which columns of a table to take, in this order; None for all.
      ignore: columns to leave out where they are there.
      image_size: (height, width) to resize images to.
      channels: 1 for grey or 3 for colour images; None for what the first one is.

    Raises:
      InputError: there are no such files, or their columns differ.
    """
    if isinstance(source, LazyRows):
        return source
    if isinstance(source, np.memmap):
        return MappedRows(source)
    if _is_data_set(source):
        fragments = list(source.get_fragments())
        pieces: list[Piece] = [FragmentPiece(each, source.schema, at) for at, each in enumerate(fragments)]
        return _table(pieces, what, what, columns, ignore)
    if not is_path(source):
        raise InputError(f"Rows are opened from the path of files, a data set or a mapped array, not {shown(source)}.")
    # Refuses sizes and channels that no image has.
    ReadOptions(ignore=ignore, image_size=image_size, channels=channels)
    files = _files(Path(source))
    endings = {file.suffix.lower() for file in files}
    if endings <= set(PARQUET):
        return _table([ParquetPiece(file) for file in files], str(source), what, columns, ignore)
    if endings <= set(ARROW):
        return _table([ArrowPiece(file) for file in files], str(source), what, columns, ignore)
    if endings <= set(IMAGE_ENDINGS):
        return ImageRows(files, str(source), image_size, channels)
    if endings == {".npy"} and len(files) == 1:
        return mapped_array(files[0])
    raise InputError(
        f"{source} holds {', '.join(sorted(endings))} files, whose rows cannot be taken one by one: give {_ENDINGS} or "
        "image files of one kind, or one .npy file, or read others with nu.datasets.read_table."
    )


def is_table_of_many_files(source: Path) -> bool:
    """Whether a path stands for parquet or Arrow files that make one table: a folder of them, or a pattern."""
    if source.is_dir():
        return any(file.suffix.lower() in (*PARQUET, *ARROW) for file in source.iterdir())
    return not source.exists() and any(sign in str(source) for sign in "*?[")


def _table(
    pieces: Sequence[Piece], name: str, what: str, columns: Sequence[str] | None, ignore: Sequence[str]
) -> ArrowRows:
    filled = [piece for piece in pieces if piece.n_rows] or list(pieces[:1])
    if not filled:
        raise InputError(f"{what} has no files; give a data set that has some.")
    return ArrowRows(filled, name, columns, ignore)


def _files(source: Path) -> list[Path]:
    """The files that a path stands for, in the order of their names."""
    if source.is_dir():
        found = [file for file in sorted(source.rglob("*")) if file.is_file() and not _is_hidden(file, source)]
        known = [file for file in found if file.suffix.lower() in (*PARQUET, *ARROW, *IMAGE_ENDINGS)]
        if not known:
            raise InputError(f"{source} holds no {_ENDINGS} files and no images: check the path.")
        return known
    if source.exists():
        return [source]
    found = [Path(each) for each in sorted(glob.glob(str(source), recursive=True))]
    if not found:
        raise InputError(f"{source} does not exist, and no file has a name like it: check the path.")
    return [file for file in found if file.is_file()] or _files(found[0])


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith((".", "_")) for part in file.relative_to(folder).parts)


def _is_data_set(rows: Any) -> bool:
    return hasattr(rows, "get_fragments") and hasattr(rows, "to_batches") and hasattr(rows, "schema")
