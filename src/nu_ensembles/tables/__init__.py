"""Tables as they are: columns of numbers, text, dates and gaps, and what they become before a network sees them."""

from nu_ensembles.tables.column import RawColumn
from nu_ensembles.tables.encoding import TableEncoding
from nu_ensembles.tables.frames import is_frame, is_gap
from nu_ensembles.tables.raw_table import Expected, RawTable, listed, refuse_missing
from nu_ensembles.tables.rows import ColumnTypes, read_column_types, rows_of
from nu_ensembles.tables.sparse_rows import SparseRows

__all__ = [
    "ColumnTypes",
    "Expected",
    "RawColumn",
    "RawTable",
    "SparseRows",
    "TableEncoding",
    "is_frame",
    "is_gap",
    "listed",
    "read_column_types",
    "refuse_missing",
    "rows_of",
]
