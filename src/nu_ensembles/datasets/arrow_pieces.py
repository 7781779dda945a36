"""Pieces of a set of Arrow rows, read some at a time: parquet and Arrow files, fragments of pyarrow's data sets."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from nu_ensembles.errors import DamagedFileError, InputError, MissingExtraError
from nu_ensembles.rows import ROWS_AT_A_TIME

PARQUET, ARROW = (".parquet",), (".arrow", ".feather", ".ipc")


def pyarrow() -> Any:
    """pyarrow, or an error that says which extra brings it."""
    try:
        import pyarrow
    except ImportError as error:
        raise MissingExtraError("Reading parquet and Arrow files", "parquet") from error
    return pyarrow


class Piece(ABC):
    """Rows that lie together.

    Attributes:
      name: of the piece, in messages.
      n_rows: how many it has.
      schema: pyarrow's.
    """

    name: str
    n_rows: int
    schema: Any

    @abstractmethod
    def batches(self, first: int, columns: Sequence[str]) -> Iterator[Any]:
        """Record batches of these columns, of the rows from `first` on."""

    @abstractmethod
    def state(self) -> list[Any]:
        """What changes when the piece does, as plain values."""


class ParquetPiece(Piece):
    """A parquet file, of which no more than a group of rows is unpacked at once."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        with self._opened() as file:
            self.n_rows, self.schema = file.metadata.num_rows, file.schema_arrow
            self.group_sizes = [file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)]

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        import pyarrow.parquet as pq

        with reading(self.name), pq.ParquetFile(self.path, page_checksum_verification=True, pre_buffer=False) as file:
            yield file

    def batches(self, first: int, columns: Sequence[str]) -> Iterator[Any]:
        group = 0
        while group < len(self.group_sizes) and first >= self.group_sizes[group]:
            first -= self.group_sizes[group]
            group += 1
        groups = list(range(group, len(self.group_sizes)))
        with self._opened() as file:
            if groups:
                found = file.iter_batches(ROWS_AT_A_TIME, row_groups=groups, columns=list(columns), use_threads=False)
                yield from without_first(found, first)

    def state(self) -> list[Any]:
        return file_state(self.path)


class ArrowPiece(Piece):
    """A file of Arrow's own format (also called Feather), which is mapped and not read as a whole."""

    def __init__(self, path: Path) -> None:
        self.path, self.name = path, str(path)
        with self._opened() as file:
            self.schema = file.schema
            self.n_rows = sum(file.get_batch(at).num_rows for at in range(file.num_record_batches))

    @contextmanager
    def _opened(self) -> Iterator[Any]:
        pa = pyarrow()
        with reading(self.name), pa.memory_map(self.name) as source:
            yield pa.ipc.open_file(source)

    def batches(self, first: int, columns: Sequence[str]) -> Iterator[Any]:
        with self._opened() as file:
            found = (file.get_batch(at).select(list(columns)) for at in range(file.num_record_batches))
            small = (part for each in found for part in in_slices(each))
            yield from without_first(small, first)

    def state(self) -> list[Any]:
        return file_state(self.path)


class FragmentPiece(Piece):
    """A fragment of a `pyarrow.dataset.Dataset`."""

    def __init__(self, fragment: Any, schema: Any, number: int) -> None:
        self.fragment, self.schema = fragment, schema
        self.name = getattr(fragment, "path", None) or f"fragment {number}"
        with reading(self.name):
            self.n_rows = fragment.count_rows()

    def batches(self, first: int, columns: Sequence[str]) -> Iterator[Any]:
        with reading(self.name):
            found = self.fragment.to_batches(
                schema=self.schema, columns=list(columns), batch_size=ROWS_AT_A_TIME, use_threads=False
            )
            yield from without_first(found, first)

    def state(self) -> list[Any]:
        path = Path(self.name)
        if path.is_file():
            return file_state(path)
        if not hasattr(self.fragment, "path"):  # rows in memory, which nothing but themselves tells apart
            digest = hashlib.sha256()
            for batch in self.batches(0, self.schema.names):
                digest.update(batch.serialize())
            return [digest.hexdigest()]
        return [self.name, self.n_rows]


@contextmanager
def reading(name: str) -> Iterator[None]:
    """What goes wrong with a file, in one sentence that names it."""
    pa = pyarrow()
    try:
        yield
    except (FileNotFoundError, PermissionError) as error:
        raise InputError(f"{name} cannot be read any more ({error.strerror}): put it back, and start again.") from error
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        raise DamagedFileError(
            f"{name} is not a complete file of its kind: save it again or restore it from a copy."
        ) from error


def without_first(batches: Iterator[Any], n: int) -> Iterator[Any]:
    """The batches without the first n rows."""
    for batch in batches:
        if n < batch.num_rows:
            yield batch.slice(n) if n else batch
        n = max(0, n - batch.num_rows)


def in_slices(batch: Any) -> Iterator[Any]:
    """A batch in parts of bounded size."""
    for first in range(0, batch.num_rows, ROWS_AT_A_TIME):
        yield batch.slice(first, ROWS_AT_A_TIME)


def file_state(path: Path) -> list[Any]:
    """Where a file is, its size and when it was last written."""
    try:
        found = path.stat()
    except OSError as error:
        raise InputError(f"{path} cannot be read any more ({error.strerror}): put it back, and start again.") from error
    return [str(path.resolve()), found.st_size, found.st_mtime_ns]


def fingerprint_of(states: Sequence[Any]) -> str:
    """One text for the states of all files of a set."""
    return hashlib.sha256(json.dumps(states).encode()).hexdigest()
