"""Tables that memory does not hold: parquet files, Arrow files and Arrow data sets, as one set of rows."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from nu_ensembles.datasets.arrow_pieces import Piece, fingerprint_of, pyarrow
from nu_ensembles.datasets.row_store import RowStore, stored
from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.rows import LazyRows
from nu_ensembles.tables import RawColumn, RawTable, refuse_missing, rows_of

# The row index that pandas stores beside the data is not a feature.
_INDEX = re.compile(r"__index_level_\d+__")


class ArrowRows(LazyRows):
    """Rows of several pieces with the same columns; `take` and `in_parts` give raw tables.

    What is read in order is read from the files. Whoever takes rows at random has them stored first (`row_store.py`).

    Args:
      pieces: at least one.
      what: to call them in messages.
      columns: which of their columns are rows' features, in this order; None for all.
      ignore: columns that are none, where they are there.

    Attributes:
      names: the columns.
    """

    def __init__(
        self, pieces: Sequence[Piece], what: str, columns: Sequence[str] | None = None, ignore: Sequence[str] = ()
    ) -> None:
        self.pieces, self.what, self.ignored = list(pieces), what, tuple(ignore)
        _refuse_other_columns(self.pieces)
        self.all_columns = [name for name in self.pieces[0].schema.names if not _INDEX.fullmatch(name)]
        features = [name for name in self.all_columns if name not in set(ignore)]
        if columns is not None:
            refuse_missing(columns, features, what)
            extra = [name for name in features if name not in set(columns)]
            if extra:
                note = f"{what} has columns that the training rows had not, which are ignored: {', '.join(extra[:5])}."
                warnings.warn(note, DataWarning, stacklevel=3)
            features = list(columns)
        if not features:
            raise InputError(f"{what} has no columns to learn from; give files with some.")
        self.names = tuple(features)
        self.shape, self.dtype = (sum(piece.n_rows for piece in self.pieces), len(self.names)), np.dtype(np.float64)
        self.fingerprint = fingerprint_of([[piece.state() for piece in self.pieces], self.names])
        self._store: RowStore | None = None

    def only(self, columns: Sequence[str], ignore: Sequence[str] = ()) -> ArrowRows:
        """The same rows with these columns; others are ignored with a note, unless it is known that they are none."""
        ignored = {*self.ignored, *ignore} - set(columns)
        return ArrowRows(self.pieces, self.what, columns, sorted(ignored))

    def take(self, indices: Any, axis: int = 0) -> RawTable:
        return self.settled().take(np.asarray(indices))

    def settled(self) -> RowStore:
        """The stored rows; written now, if nobody has before."""
        if self._store is None:
            small = [all(_is_small(piece.schema.field(name).type) for piece in self.pieces) for name in self.names]
            self._store = stored(self.fingerprint, self.tables(0, self.names), len(self), small, self.what)
        return self._store

    def in_parts(self, first: int = 0) -> Iterator[RawTable]:
        if self._store is not None:
            return self._store.in_parts(first)
        return self.tables(first, self.names)

    def text_in_parts(self, first: int, columns: Sequence[str]) -> Iterator[np.ndarray]:
        """Columns as text, from row `first` on: records with a field for each."""
        for name in columns:
            if name not in self.all_columns:
                raise InputError(
                    f"{self.what} has no column {name!r} to keep; name one of {', '.join(self.all_columns)}."
                )
        for frame in self.frames(first, columns):
            records = np.empty(frame.num_rows, [(name, object) for name in columns])
            for name in columns:
                records[name] = ["" if value is None else str(value) for value in frame.column(name).to_pylist()]
            yield records

    def tables(self, first: int, columns: Sequence[str]) -> Iterator[RawTable]:
        """Raw tables of some columns, from row `first` on, read from the files."""
        return (_raw_table(frame, self.what) for frame in self.frames(first, columns))

    def whole(self) -> RawTable:
        """All rows at once, as any table in memory is read."""
        return rows_of(pyarrow().concat_tables(self.frames(0, self.names)), self.what)

    def frames(self, first: int, columns: Sequence[str]) -> Iterator[Any]:
        """The same as pyarrow's tables."""
        pa = pyarrow()
        for piece in self.pieces:
            if first < piece.n_rows:
                for batch in piece.batches(first, columns):
                    yield pa.Table.from_batches([batch]).select(list(columns))
            first = max(0, first - piece.n_rows)


def _raw_table(frame: Any, what: str) -> RawTable:
    """A part of a table; whether all words of a column are dates is not known before its last part."""
    texts = {name: _text(name, frame.column(name)) for name in frame.column_names if _is_text(frame, name)}
    others = frame.drop_columns(list(texts))
    found = {part.name: part for part in rows_of(others, what).parts} if others.num_columns else {}
    return RawTable(tuple({**found, **texts}[name] for name in frame.column_names))


def _is_text(frame: Any, name: str) -> bool:
    types, kind = pyarrow().types, frame.schema.field(name).type
    return types.is_string(kind) or types.is_large_string(kind)


def _text(name: str, column: Any) -> RawColumn:
    """A column of text, its levels in the order of their first row."""
    coded = column.combine_chunks().dictionary_encode()
    if not hasattr(coded, "indices"):  # of several chunks, or of none
        coded = pyarrow().concat_arrays(coded.chunks) if coded.num_chunks else None
    if coded is None:
        return RawColumn(name, "category", np.zeros(0, np.int32))
    codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int32)
    return RawColumn(name, "category", codes, tuple(coded.dictionary.to_pylist()))


def _refuse_other_columns(pieces: Sequence[Piece]) -> None:
    """Refuses files whose columns are not those of the first one."""
    first = pieces[0]
    kinds = {name: _kind(first.schema.field(name).type) for name in first.schema.names}
    for piece in pieces[1:]:
        names = piece.schema.names
        missing, extra = [n for n in kinds if n not in names], [n for n in names if n not in kinds]
        if missing or extra:
            differs = f"has a column {extra[0]!r} that {first.name} has not" if extra else ""
            differs = f"lacks the column {missing[0]!r} of {first.name}" if missing else differs
            raise InputError(f"{piece.name} {differs}; give files of the same columns.")
        for name, kind in kinds.items():
            other = _kind(piece.schema.field(name).type)
            if other != kind:
                raise InputError(
                    f"The column {name!r} holds {other} in {piece.name} and {kind} in {first.name}; give files of the "
                    "same columns."
                )


def _kind(kind: Any) -> str:
    types = pyarrow().types
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_dictionary(kind):
        return _kind(kind.value_type)
    if types.is_string(kind) or types.is_large_string(kind):
        return "text"
    if types.is_temporal(kind):
        return "durations" if types.is_duration(kind) else "times" if types.is_time(kind) else "dates"
    return str(kind)


def _is_small(kind: Any) -> bool:
    """Whether float32 holds every value of a type of numbers."""
    types = pyarrow().types
    return (
        types.is_boolean(kind)
        or (types.is_integer(kind) and kind.bit_width <= 16)
        or (types.is_floating(kind) and kind.bit_width <= 32)
    )
