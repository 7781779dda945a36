"""Unlabelled rows that memory does not hold: opened, encoded and scaled as those in memory are, when they are taken.

What must be known of all rows (medians, levels, means, deviations, that they are finite) is found by reading them in
order, and kept under the fingerprint of the data: the next fit on the same rows reads none of them again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from nu_ensembles.datasets.arrow_rows import ArrowRows
from nu_ensembles.datasets.mapped_records import MappedRecords
from nu_ensembles.datasets.open_rows import is_source, open_rows
from nu_ensembles.datasets.row_store import remembered, stored_array
from nu_ensembles.errors import InputError
from nu_ensembles.problem.inputs import check_rows
from nu_ensembles.problem.preprocessing import Standardisation, as_table, check_kind, network_rows
from nu_ensembles.rows import LazyRows
from nu_ensembles.tables import ColumnTypes, RawTable, TableEncoding, read_column_types

# Rows of so few bytes are read into memory at once, where every method can use them.
FEW_BYTES = 1 << 26


def opened(rows: Any, what: str, row_shape: tuple[int, ...] | None = None) -> Any:
    """Rows that are named (a file, a folder, a pattern) or mapped; those that take little room in memory, all others as
    they are.

    Args:
      what: to call them in messages.
      row_shape: of the labelled rows: images of a folder become grey or coloured as these are.
    """
    if rows is None or type(rows) is np.ndarray or not is_source(rows):
        return rows
    if isinstance(rows, np.memmap) and rows.nbytes <= FEW_BYTES:
        return np.asarray(rows)
    channels = None if row_shape is None or len(row_shape) != 3 else row_shape[-1]
    found = rows if isinstance(rows, LazyRows) else open_rows(rows, what, channels=channels)
    return in_memory(found) if takes_little_room(found) else found


def takes_little_room(rows: LazyRows) -> bool:
    """Whether the rows are better read into memory at once."""
    return int(np.prod(rows.shape, dtype=np.int64)) * rows.dtype.itemsize <= FEW_BYTES


def in_memory(rows: LazyRows) -> Any:
    """All rows at once, read in their order."""
    if isinstance(rows, ArrowRows):
        return rows.whole()
    parts = [part for part in rows.in_parts() if len(part)]
    if not parts:
        raise InputError("There are no rows in the files; add some, or leave them out.")
    return _joined(parts)


def rows_in_parts(x: Any, encoding: TableEncoding | None, n: int) -> Iterator[tuple[int, Any]]:
    """Rows to predict, n at a time, and which number the first of them has.

    Args:
      encoding: finds the columns of rows that memory does not hold; those of a table in memory are in order already.
    """
    if not isinstance(x, LazyRows):
        yield from ((start, x[start : start + n]) for start in range(0, len(x), n))
        return
    for number, part in enumerate(of_equal_size(x.in_parts(), n)):
        yield number * n, part if encoding is None else encoding.matched(as_table(part, "X"))


def of_equal_size(parts: Iterator[Any], n: int) -> Iterator[Any]:
    """The same rows, n at a time: batches, and so the last bits of what networks say, are those of rows in memory."""
    left: list[Any] = []
    for part in parts:
        while sum(map(len, left)) + len(part) >= n:
            missing = n - sum(map(len, left))
            yield _joined([*left, part[:missing]])
            left, part = [], part[missing:]
        left += [part] if len(part) else []
    if left:
        yield _joined(left)


def _joined(parts: list[Any]) -> Any:
    if len(parts) == 1:
        return parts[0]
    return RawTable.stacked(parts) if isinstance(parts[0], RawTable) else np.concatenate(parts)


class AsTables(LazyRows):
    """Rows as raw tables, whichever they were; what: to call them in messages."""

    def __init__(self, rows: LazyRows, what: str) -> None:
        self.rows, self.what = rows, what
        self.shape, self.dtype, self.fingerprint = rows.shape, rows.dtype, rows.fingerprint

    def take(self, indices: Any, axis: int = 0) -> RawTable:
        return as_table(self.rows.take(indices), self.what)

    def in_parts(self, first: int = 0) -> Iterator[RawTable]:
        return (as_table(part, self.what) for part in self.rows.in_parts(first))


class EncodedRows(LazyRows):
    """Rows as checked numbers: a table by its encoding, an array as it is.

    Args:
      what: to call them in messages.
    """

    def __init__(self, rows: LazyRows, encoding: TableEncoding | None, row_shape: tuple[int, ...], what: str) -> None:
        self.rows, self.encoding, self.what = rows, encoding, what
        self.shape = (len(rows), *row_shape)
        self.dtype = np.dtype(np.float64) if encoding is not None else rows.dtype
        words = rows.fingerprint if encoding is None else f"{rows.fingerprint}{encoding.to_json()}"
        self.fingerprint = hashlib.sha256(words.encode()).hexdigest()

    def take(self, indices: Any, axis: int = 0) -> np.ndarray:
        return self._numbers(self.rows.take(indices), 0)

    def in_parts(self, first: int = 0) -> Iterator[np.ndarray]:
        for part in self.rows.in_parts(first):
            yield self._numbers(part, first)
            first += len(part)

    def _numbers(self, part: Any, first_row: int) -> np.ndarray:
        if self.encoding is not None:
            part = self.encoding.numbers(
                self.encoding.matched(as_table(part, self.what), self.what), self.what, first_row
            )
        return check_rows(part, self.what, self.shape[1:], first_row=first_row)


class ScaledRows(LazyRows):
    """Encoded rows as the networks get them: float32, or bytes."""

    # As they are in a file, whose rows are taken at once: encoding them each time would take longer than the steps.
    stored: MappedRecords | None = None

    def __init__(self, rows: EncodedRows, standardisation: Standardisation | None) -> None:
        self.rows, self.standardisation = rows, standardisation
        pixels = standardisation is None and rows.dtype == np.uint8
        self.shape, self.dtype = rows.shape, np.dtype(np.uint8 if pixels else np.float32)
        digest = hashlib.sha256(rows.fingerprint.encode())
        if standardisation is not None:
            digest.update(standardisation.mean.tobytes() + standardisation.scale.tobytes())
        self.fingerprint = digest.hexdigest()
        if rows.encoding is not None or standardisation is not None or rows.dtype not in (np.uint8, np.float32):
            self.stored = stored_array(self.fingerprint, self.in_parts, self.shape, self.dtype, rows.what)

    def take(self, indices: Any, axis: int = 0) -> np.ndarray:
        if self.stored is not None:
            return self.stored.take(np.asarray(indices))
        return network_rows(self.rows.take(indices), self.standardisation)

    def in_parts(self, first: int = 0) -> Iterator[np.ndarray]:
        if self.stored is not None:
            return self.stored.in_parts(first)
        return (network_rows(part, self.standardisation) for part in self.rows.in_parts(first))


def prepare_lazily(
    x: Any, rows: LazyRows, types: ColumnTypes | None, standardize: bool | None, names: tuple[str, str]
) -> tuple[np.ndarray, ScaledRows, Standardisation | None, TableEncoding | None]:
    """Labelled rows as the networks get them, and the same of unlabelled ones that memory does not hold.

    Args:
      x: a table, or checked numbers.
      standardize: see `prepare`.
      names: what to call both in messages.
    """
    named = isinstance(x, RawTable) and x.named
    if named and isinstance(rows, ArrowRows):
        rows = rows.only([part.name for part in x.parts if not part.gaps.all()])
    standardize = named if standardize is None else bool(standardize)
    declared = {} if types is None else read_column_types(types)
    asked = hashlib.sha256(f"{rows.fingerprint} {standardize} {declared}".encode())
    _add_content(asked, x)

    def computed() -> dict[str, Any]:
        encoding: TableEncoding | None = None
        numbers: Any = x
        if _needs_encoding(x, rows, bool(declared)):
            table = as_table(x, names[0]).declared(declared, names[0])
            encoding, (numbers, *_) = TableEncoding.fit(table, AsTables(rows, names[1]), names=names)
        encoded = EncodedRows(rows, encoding, numbers.shape[1:], names[1])
        if not standardize:
            for _ in encoded.in_parts():  # which refuses what is not finite
                pass
            return {"encoding": None if encoding is None else encoding.to_json()}
        as_they_are = None if encoding is None else encoding.as_they_are
        scaling = Standardisation.fit(numbers, encoded, as_they_are=as_they_are)
        return {
            "encoding": None if encoding is None else encoding.to_json(),
            "mean": scaling.mean.tolist(),
            "scale": scaling.scale.tolist(),
        }

    _check_shapes(x, rows, names[1])
    found = remembered(asked.hexdigest(), computed)
    encoding = None if found["encoding"] is None else TableEncoding.from_json(found["encoding"])
    numbers: Any = x if encoding is None else encoding(as_table(x, names[0]).declared(declared, names[0]), names[0])
    scaling = Standardisation(np.array(found["mean"]), np.array(found["scale"])) if standardize else None
    encoded = EncodedRows(rows, encoding, numbers.shape[1:], names[1])
    return network_rows(numbers, scaling), ScaledRows(encoded, scaling), scaling, encoding


def _check_shapes(x: Any, rows: LazyRows, what: str) -> None:
    if isinstance(x, RawTable) or isinstance(rows[:0], RawTable):
        return  # columns are matched by name
    if rows.shape[1:] != x.shape[1:]:
        raise InputError(
            f"{what} has rows of shape {rows.shape[1:]} where {x.shape[1:]} is expected; give it the same columns in "
            "the same order as the training data."
        )
    check_kind(rows[:0], x.dtype == np.uint8, what)


def _needs_encoding(x: Any, rows: LazyRows, is_declared: bool) -> bool:
    """Whether anything must become numbers first: a table, or an array with gaps."""
    if is_declared or isinstance(x, RawTable) or isinstance(rows[:0], RawTable):
        return True
    if x.ndim != 2 or rows.dtype.kind != "f":
        return False
    return bool(np.isnan(x).any()) or any(bool(np.isnan(part).any()) for part in rows.in_parts())


def _add_content(digest: Any, x: Any) -> None:
    """Adds the labelled rows themselves."""
    parts: dict[Any, np.ndarray] = {"": x}
    if isinstance(x, RawTable):
        parts = {(part.name, part.kind, part.levels): part.values for part in x.parts}
    for about, values in parts.items():
        digest.update(f"{about}{values.shape}{values.dtype}".encode())
        digest.update(np.ascontiguousarray(values).tobytes())
