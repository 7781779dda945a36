"""Whatever a user hands in as rows: frames as raw tables, sparse matrices dense or as they are, arrays as they are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nu_ensembles.errors import InputError, shown, unknown_name
from nu_ensembles.rows import LazyRows
from nu_ensembles.tables.column import Kind
from nu_ensembles.tables.frames import is_frame, table_of_frame
from nu_ensembles.tables.raw_table import RawTable
from nu_ensembles.tables.sparse_rows import SparseRows, dense_or_sparse, is_sparse

_KINDS: tuple[Kind, ...] = ("number", "category", "date")

ColumnTypes = Mapping[str, str | Sequence[Any]]


def rows_of(x: Any, what: str) -> Any:
    """A `RawTable` of a data frame, of a sparse matrix a dense array or `SparseRows`, anything else as it is.

    Args:
      what: to call x in messages.
    """
    if isinstance(x, RawTable | SparseRows | LazyRows):
        return x
    if is_sparse(x):
        return dense_or_sparse(x, what)
    if not is_frame(x):
        return x
    table = table_of_frame(x, what)
    if not len(table.parts):
        raise InputError(f"{what} has 0 feature(s) (shape {np.shape(x)}) while a minimum of 1 is required.")
    return table


def read_column_types(types: ColumnTypes) -> dict[str, tuple[Kind, tuple[str, ...]]]:
    """Kinds and levels by column, from what the user declared: "number", "category", "date", or levels in order."""
    if not isinstance(types, Mapping):
        raise InputError(
            f"column_types must say what columns are, as in {{'zip': 'category', 'size': ['S', 'M', 'L']}}, not "
            f"{shown(types)}."
        )
    found: dict[str, tuple[Kind, tuple[str, ...]]] = {}
    for name, said in types.items():
        if isinstance(said, str):
            if said not in _KINDS:
                raise unknown_name(f"type of the column {name!r},", said, _KINDS)
            found[name] = (said, ())
        else:
            if not isinstance(said, Sequence) or isinstance(said, bytes):
                raise InputError(
                    f"column_types must say of {name!r} its type or its levels in order, not {shown(said)}."
                )
            levels = tuple(str(level) for level in said)
            if len(set(levels)) < max(2, len(levels)):
                raise InputError(
                    f"The levels of {name!r} in column_types must be two or more different ones, in order."
                )
            found[name] = ("ordered", levels)
    return found
