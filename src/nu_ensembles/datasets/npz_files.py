"""Reads NumPy archives: an array of rows under X, x or images, and labels under y or labels.

Or a sparse matrix, as `scipy.sparse.save_npz` writes it, with the labels beside it, if there are any.

Pickled objects are never loaded: through them a file from a stranger could run any program.
"""

from __future__ import annotations

import contextlib
import math
import tokenize
import zipfile
import zlib
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.lib.npyio import NpzFile
from scipy.sparse import csc_array, csr_array

from nu_ensembles.datasets.columns import check_names
from nu_ensembles.datasets.table import ReadOptions, Table, require_one_label_a_row, require_rows
from nu_ensembles.datasets.unpacking import HARMLESS, MOST_TIMES
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.tables import rows_of

_ROWS = ("X", "x", "images")
_LABELS = ("y", "labels")
# What scipy.sparse.save_npz calls the parts of a matrix in CSR or CSC format.
_SPARSE = {"format", "shape", "data", "indices", "indptr"}
# What zipfile and numpy.lib.format raise on files with flipped bytes; not MemoryError, which says something
# else. A file that is no archive at all is a ValueError, since np.load offers to unpickle it.
_UNREADABLE = (
    *(OSError, ValueError, EOFError, KeyError, TypeError, SyntaxError, RuntimeError),
    *(zipfile.BadZipFile, zlib.error, tokenize.TokenError),
)


def read_npz(path: Path, options: ReadOptions) -> Table:
    """Reads rows, and labels where `options.target` or a conventional name says which array they are."""
    with _opened(path) as archive:
        names = archive.files
        require_rows(str(path), len(names))
        check_names(str(path), names, options, noun="array")
        left_out = {*options.drop, *options.ignore}
        label_name = options.target or next((n for n in _LABELS if n in names and n not in left_out), None)
        if set(names) >= _SPARSE:
            X, kind = _sparse_rows(path, archive), "table"
        else:
            rows_name = _rows_name(path, names, {label_name, *left_out})
            X, kind = _rows(path, rows_name, _array(path, archive, rows_name), options)
        y = None if label_name is None else _labels(path, label_name, _array(path, archive, label_name))
    if y is not None:
        require_one_label_a_row(str(path), len(X), len(y))
    return Table(X, y, None, kind)


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[NpzFile]:
    # Opened here, because np.load leaves its own file open when the archive turns out to be damaged.
    with open(path, "rb") as file:
        try:
            archive = np.load(file, allow_pickle=False)
        except _UNREADABLE as error:
            raise _damaged(path) from error
        if not isinstance(archive, NpzFile):
            raise InputError(f"{path} holds a single array: save it with numpy.savez(path, X=rows, y=labels).")
        with archive:
            yield archive


def _array(path: Path, archive: NpzFile, name: str) -> np.ndarray:
    _refuse_what_unpacks_without_end(path, archive, name)
    try:
        return np.asarray(archive[name])
    except MemoryError as error:
        raise InputError(f"The array {name!r} of {path} does not fit into memory: give fewer rows.") from error
    except _UNREADABLE as error:
        if "allow_pickle" in str(error):
            raise InputError(
                f"The array {name!r} of {path} holds Python objects, which could run programs when loaded: "
                "save it as an array of numbers or text."
            ) from error
        raise _damaged(path) from error


def _refuse_what_unpacks_without_end(path: Path, archive: NpzFile, name: str) -> None:
    """Before anything is unpacked: a quarter of a megabyte can stand for gigabytes of zeros."""
    members = {each.filename.removesuffix(".npy"): each for each in archive.zip.infolist()} if archive.zip else {}
    size, packed = (members[name].file_size, members[name].compress_size) if name in members else (0, 0)
    if size > HARMLESS and size > MOST_TIMES * packed:
        raise InputError(
            f"The array {name!r} of {path} unpacks to {size // max(packed, 1)} times its size: save it with "
            "numpy.savez, not packed, if that is right."
        )
    try:
        with archive.zip.open(members[name]) as file:  # pyright: ignore[reportOptionalMemberAccess]
            version = np.lib.format.read_magic(file)
            read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
            shape, _, dtype = read(file)
            if dtype.kind != "O" and math.prod(shape) * dtype.itemsize > size:
                raise _damaged(path)
    except DamagedFileError:
        raise
    except _UNREADABLE as error:
        raise _damaged(path) from error


def _rows_name(path: Path, names: Collection[str], taken: Collection[str | None]) -> str:
    free = [name for name in names if name not in taken]
    named = [name for name in _ROWS if name in free]
    if not named and len(free) != 1:
        raise InputError(f"{path} has no array named X among {', '.join(map(repr, names))}: call the array of rows X.")
    return named[0] if named else free[0]


def _rows(path: Path, name: str, X: np.ndarray, options: ReadOptions) -> tuple[np.ndarray, Literal["table", "images"]]:
    """Tables as float `[N, F]`; images as `[N, H, W, C]` in their own type, grey ones with C = 1."""
    if X.dtype.kind not in "biuf":
        raise InputError(f"The array {name!r} of {path} has type {X.dtype}: give rows of numbers.")
    if X.ndim not in (2, 3, 4):
        raise InputError(
            f"The array {name!r} of {path} has shape {X.shape}: give a table [rows, columns] "
            "or images [rows, height, width, channels]."
        )
    require_rows(str(path), len(X))
    if X.ndim > 2:
        return (X if X.ndim == 4 else X[..., None]), "images"
    if options.columns is not None and X.shape[1] != len(options.columns):
        raise InputError(
            f"{path} has {X.shape[1]} columns but the model was trained with {len(options.columns)}: "
            "give the same columns in the same order."
        )
    if X.dtype.kind != "f":
        # float32 holds every whole number of up to 16 bits: bytes take four times their room and not eight.
        X = X.astype(np.float32 if X.dtype.itemsize <= 2 else np.float64)
    return X, "table"


def _sparse_rows(path: Path, archive: NpzFile) -> Any:
    """The rows of a sparse matrix; dense, if it is not too large for that."""
    parts = {name: _array(path, archive, name) for name in sorted(_SPARSE)}
    kind, shape = parts["format"].item(), tuple(parts["shape"].tolist())
    form = {b"csr": csr_array, b"csc": csc_array, "csr": csr_array, "csc": csc_array}.get(kind)
    if form is None or len(shape) != 2:
        raise InputError(f"{path} holds a sparse matrix in the format {kind!r}: save it as CSR, with X.tocsr().")
    try:
        matrix = form((parts["data"], parts["indices"], parts["indptr"]), shape=shape)
        matrix.check_format(full_check=True)
    except (ValueError, TypeError) as error:
        raise _damaged(path) from error
    require_rows(str(path), shape[0])
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{path} holds a sparse matrix of type {matrix.dtype}: give rows of numbers.")
    return rows_of(matrix.astype(matrix.dtype if matrix.dtype == np.float32 else np.float64), str(path))


def _labels(path: Path, name: str, y: np.ndarray) -> np.ndarray:
    if y.ndim == 2 and y.shape[1] == 1:
        y = y[:, 0]
    if y.ndim != 1 or y.dtype.kind not in "biufSU":
        raise InputError(
            f"The labels {name!r} of {path} have shape {y.shape} and type {y.dtype}: "
            "give one class for each row, as numbers or text."
        )
    return np.char.decode(y, "utf-8", "replace") if y.dtype.kind == "S" else y


def _damaged(path: Path) -> DamagedFileError:
    return DamagedFileError(
        f"{path} is not a complete npz file: save it again with numpy.savez or restore it from a copy."
    )
