"""A file of equal records, of which any row is taken without keeping what was touched."""

from __future__ import annotations

import mmap
import os
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles.errors import InputError
from nu_ensembles.rows import ROWS_AT_A_TIME

# Rows that are gathered before their pages are given back: a page that was touched counts as this process's memory.
TAKEN_AT_ONCE = 1 << 11
# So many rows in order are read with all that lies between them, where that is at most two pages for each: in half of
# the time that the faults of these pages take (`benchmarks/large_rows.py`).
FEW, SPARSEST, PAGE, READ_AT_ONCE = 1 << 10, 2, 1 << 12, 1 << 22


class MappedRecords:
    """A file of equal records, `[N]`, of which rows are taken without keeping what was touched."""

    def __init__(self, path: Path, dtype: Any, n_rows: int, offset: int = 0, row_shape: tuple[int, ...] = ()) -> None:
        self.path, self.dtype, self.n_rows, self.offset = path, np.dtype(dtype), n_rows, offset
        self.row_shape = row_shape
        self.records = np.memmap(path, self.dtype, "r", offset, (n_rows, *row_shape)) if n_rows else None
        self.row_bytes = int(np.prod(row_shape, dtype=np.int64)) * self.dtype.itemsize
        self._file = -1
        if n_rows and hasattr(os, "preadv"):
            # A file of its own, which stays open, so that it may be removed while it is read.
            self._file = os.open(path, os.O_RDONLY)
            weakref.finalize(self, os.close, self._file)

    def __reduce__(self) -> tuple[Any, ...]:
        # Sent to another process, the file is opened there; its content would go along otherwise.
        return MappedRecords, (self.path, self.dtype, self.n_rows, self.offset, self.row_shape)

    def take(self, rows: np.ndarray) -> np.ndarray:
        """The records of these rows."""
        taken = np.empty((len(rows), *self.row_shape), self.dtype)
        if self.records is None:
            return taken
        if self._lie_close(rows):
            self._read_through(rows, taken)
            return taken
        plain = self.records.view(np.ndarray)
        for first in range(0, len(rows), TAKEN_AT_ONCE):
            part = slice(first, first + TAKEN_AT_ONCE)
            plain.take(rows[part], axis=0, out=taken[part], mode="clip")
            self._give_back()
        return taken

    def _lie_close(self, rows: np.ndarray) -> bool:
        """Whether rows come in order, and most pages between the first and the last hold one of them."""
        if self._file < 0 or len(rows) < FEW or not 0 < self.row_bytes <= PAGE or (np.diff(rows) < 0).any():
            return False
        return (int(rows[-1]) - int(rows[0])) * self.row_bytes < SPARSEST * PAGE * len(rows)

    def _read_through(self, rows: np.ndarray, taken: np.ndarray) -> None:
        """Takes rows that lie close from all that lies between them: a page's fault takes longer than its reading."""
        at_once = READ_AT_ONCE // self.row_bytes
        buffer = np.empty((at_once, *self.row_shape), self.dtype)
        start = 0
        while start < len(rows):
            first = int(rows[start])
            end = start + int(np.searchsorted(rows[start:], first + at_once))
            part = buffer[: int(rows[end - 1]) - first + 1]
            n = os.preadv(self._file, [part.view(np.uint8).reshape(-1).data], self.offset + first * self.row_bytes)
            if n < part.nbytes:
                raise cut_off(self.path)
            np.take(part, rows[start:end] - first, axis=0, out=taken[start:end], mode="clip")
            start = end

    def in_parts(self, first: int = 0, rows_at_a_time: int = ROWS_AT_A_TIME) -> Iterator[np.ndarray]:
        """The records from `first` on in their order, by plain reading."""
        a_row = self.row_bytes // self.dtype.itemsize
        with open(self.path, "rb") as file:
            file.seek(self.offset + first * self.row_bytes)
            for start in range(first, self.n_rows, rows_at_a_time):
                n = min(rows_at_a_time, self.n_rows - start)
                found = np.fromfile(file, self.dtype, n * a_row)
                if len(found) < n * a_row:
                    raise cut_off(self.path)
                yield found.reshape(n, *self.row_shape)

    def _give_back(self) -> None:
        held: Any = getattr(self.records, "_mmap", None)
        if held is not None and hasattr(mmap, "MADV_DONTNEED"):
            held.madvise(mmap.MADV_DONTNEED)


def cut_off(path: Path) -> InputError:
    """What is said of a file that ends too early."""
    return InputError(f"{path} was cut off while it was read: restore it, and start again.")
