"""Columns of a table in a local file of equal records, of which any row is read at once.

Parquet and Arrow files are read in order; a training takes rows at random. So the columns are written once, as they are
(numbers, numbers of levels, dates), into a file that later fits on the same rows find by the fingerprint of theirs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles import storage
from nu_ensembles.datasets.cifar_cache import data_cache_folder
from nu_ensembles.datasets.mapped_records import MappedRecords
from nu_ensembles.errors import InputError
from nu_ensembles.tables import RawColumn, RawTable
from nu_ensembles.tables.column import date_from_text

# The folder of these files, where it is not a sub-folder of the user's cache.
FOLDER = "NU_ENSEMBLES_ROWS"
# Texts that a column may have: each is kept in memory.
MOST_LEVELS = 1 << 20
_RECORDS, _ABOUT = "rows.bin", "rows.json"
_TYPES = {"number": "<f8", "small number": "<f4", "category": "<i4", "ordered": "<i4", "date": "<M8[us]"}


def rows_folder() -> Path:
    """Where these files are kept."""
    named = os.environ.get(FOLDER)
    return Path(named) if named else data_cache_folder().parent / "rows"


@dataclasses.dataclass(frozen=True)
class StoredColumn:
    """A column of a stored table: its kind, its levels in the order of their first row, and the type of its values."""

    name: str
    kind: str
    levels: tuple[str, ...]
    dtype: str


class RowStore:
    """A stored table.

    Args:
      folder: of its file and of what describes it.
    """

    def __init__(self, folder: Path) -> None:
        about = storage.read_sealed_json(folder / _ABOUT, "The index of stored rows")
        self.columns = tuple(StoredColumn(**{**each, "levels": tuple(each["levels"])}) for each in about["columns"])
        self.n_rows = int(about["n_rows"])
        dtype = np.dtype([(f"c{at}", each.dtype) for at, each in enumerate(self.columns)])
        expected = self.n_rows * dtype.itemsize
        if (folder / _RECORDS).stat().st_size != expected:
            raise storage.altered(str(folder / _RECORDS))
        self.records = MappedRecords(folder / _RECORDS, dtype, self.n_rows)
        # Text of which every word is a date is a column of dates, as in memory.
        texts = [each for each in self.columns if each.kind == "category" and each.levels]
        self.dates = {each.name for each in texts if all(date_from_text(word) is not None for word in each.levels)}

    def take(self, rows: np.ndarray) -> RawTable:
        return self._table(self.records.take(rows))

    def in_parts(self, first: int = 0) -> Iterator[RawTable]:
        return (self._table(records) for records in self.records.in_parts(first))

    def _table(self, records: np.ndarray) -> RawTable:
        parts = []
        for at, column in enumerate(self.columns):
            values = records[f"c{at}"]
            values = values.astype(np.float64) if column.kind == "number" else np.ascontiguousarray(values)
            part = RawColumn(column.name, column.kind, values, column.levels)  # pyright: ignore[reportArgumentType]
            parts.append(part.as_kind("date", (), column.name) if column.name in self.dates else part)
        return RawTable(tuple(parts))


def stored(fingerprint: str, parts: Iterable[RawTable], n_rows: int, small: Sequence[bool], what: str) -> RowStore:
    """The store of a table, from earlier or written now; of several processes that want it one writes.

    Args:
      parts: of the table, all of the same columns; read only if it is not stored yet.
      small: which columns of numbers hold float32 or less.
      what: to call the rows in messages.
    """
    folder = rows_folder() / fingerprint[:32]
    with only_one_writes(folder):
        if not folder.exists():
            _write(folder, parts, n_rows, small, what)
    return RowStore(folder)


def stored_array(
    fingerprint: str, parts: Callable[[], Iterator[np.ndarray]], shape: tuple[int, ...], dtype: Any, what: str
) -> MappedRecords:
    """Rows `shape` as one array in a file, from earlier or written now.

    Args:
      parts: gives the rows in their order; asked only if they are not stored yet.
      what: to call them in messages.
    """
    folder = rows_folder() / fingerprint[:32]
    with only_one_writes(folder):
        if not folder.exists():
            require_room(int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize, what)
            with storage.new_folder(folder) as aside, open(aside / _RECORDS, "wb") as file:
                for part in parts():
                    np.ascontiguousarray(part, dtype).tofile(file)
    path = folder / _RECORDS
    if path.stat().st_size != int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize:
        raise storage.altered(str(path))
    return MappedRecords(path, dtype, shape[0], 0, shape[1:])


@contextlib.contextmanager
def only_one_writes(place: Path) -> Iterator[None]:
    """Waits until nobody else writes there."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(
            f"{place.parent} cannot be made ({error.strerror}); name another folder in {FOLDER}."
        ) from error
    with contextlib.ExitStack() as held:
        while True:
            try:
                held.enter_context(storage.claimed(place))
                break
            except InputError:
                if not os.access(place.parent, os.W_OK):
                    raise
                time.sleep(0.2)
        yield


def remembered(key: str, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Plain values that take a look at all rows, from earlier or computed and kept under a key."""
    path = rows_folder() / f"{key[:32]}.json"
    with only_one_writes(path):
        if path.exists():
            with contextlib.suppress(InputError):  # a damaged one is made again
                return storage.read_sealed_json(path, "What is known of rows")
        found = compute()
        storage.write_sealed_json(path, found)
    return found


def require_room(n_bytes: int, what: str) -> None:
    """Refuses to fill the disk."""
    free = shutil.disk_usage(rows_folder()).free
    if n_bytes > 0.95 * free:
        raise InputError(
            f"{what} need {n_bytes / 1e9:.1f} GB in {rows_folder()}, where {free / 1e9:.1f} GB are free; make room, or "
            f"name a folder on a larger disk in {FOLDER}."
        )


def _write(folder: Path, parts: Iterable[RawTable], n_rows: int, small: Sequence[bool], what: str) -> None:
    levels: dict[int, dict[str, int]] = {}
    columns: list[StoredColumn] = []
    dtype, written = np.dtype([]), 0
    with storage.new_folder(folder) as aside, open(aside / _RECORDS, "wb") as file:
        for table in parts:
            if not columns:
                columns = [_column(part, *each) for part, each in zip(table.parts, zip(small), strict=True)]
                dtype = np.dtype([(f"c{at}", each.dtype) for at, each in enumerate(columns)])
                require_room(n_rows * dtype.itemsize, what)
            records = np.empty(len(table), dtype)
            for at, part in enumerate(table.parts):
                is_text = part.kind == "category"
                records[f"c{at}"] = _codes(part, levels.setdefault(at, {}), what) if is_text else part.values
            records.tofile(file)
            written += len(table)
        if written != n_rows:
            raise InputError(f"{what} changed while they were read; start again.")
        for at, known in levels.items():
            if known:
                columns[at] = dataclasses.replace(columns[at], levels=tuple(known))
        about = {"n_rows": n_rows, "columns": [dataclasses.asdict(each) for each in columns]}
        storage.write_sealed_json(aside / _ABOUT, about)


def _column(part: RawColumn, is_small: bool) -> StoredColumn:
    stands_as = "small number" if part.kind == "number" and is_small else part.kind
    return StoredColumn(part.name, part.kind, part.levels if part.kind == "ordered" else (), _TYPES[stands_as])


def _codes(part: RawColumn, known: dict[str, int], what: str) -> np.ndarray:
    """Numbers of levels among all that were known so far; `known` grows."""
    ours = np.array([*(known.setdefault(level, len(known)) for level in part.levels), -1], np.int32)
    if len(known) > MOST_LEVELS:
        raise InputError(
            f"The column {part.name!r} of {what} holds more than {MOST_LEVELS:,} different texts, as an identifier "
            "does; leave it out."
        )
    return ours[part.values]
