"""The user's data, checked, encoded and scaled once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from nu_ensembles.checks import check_array, check_numbers
from nu_ensembles.errors import InputError
from nu_ensembles.problem.inputs import Unlabeled, check_labels, check_rows, check_weights
from nu_ensembles.problem.labels import separate
from nu_ensembles.problem.lazily import opened, prepare_lazily
from nu_ensembles.problem.leaks import refuse_leaks
from nu_ensembles.problem.pairs import as_sparse, fit_scales, fullest, pairs_of, widened
from nu_ensembles.problem.preprocessing import Standardisation, as_table, check_kind, network_rows
from nu_ensembles.rows import LazyRows
from nu_ensembles.tables import ColumnTypes, RawTable, SparseRows, TableEncoding, read_column_types, rows_of


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Checked data, ready for the engine.

    x: `[N, …]`, float32 or uint8, of a large sparse matrix pairs `[N, M, 2]`; y: class numbers, int32 `[N]`; weight:
      `[N]`, mean one.
    x_unlabeled: `[M, …]` or None; lazy rows, where memory does not hold them.
    classes: `[C]`, what the class numbers stand for.
    standardisation: what the rows were scaled by, or None.
    row_numbers: `[N]`, where the rows stood in what the user gave.
    columns: names of the user's columns that are used, or None where they have none.
    encoding: how a table became numbers, or None for an array that held nothing else.
    sparse_columns: how many columns the sparse matrix has, whose rows are pairs of column and value; None for others.
    row_shape: of a row as the network gets it while it trains.
    dense_shape: of a row that is not sparse, as the trained ensemble takes it.
    pixels: whether the rows are bytes, which the network gets as x/255.
    feature_names: of what the network gets, one for each number of a table's row, or None.
    """

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    x_unlabeled: Any
    classes: np.ndarray
    standardisation: Standardisation | None
    row_numbers: np.ndarray
    columns: tuple[str, ...] | None = None
    encoding: TableEncoding | None = None
    sparse_columns: int | None = None
    n_unlabeled: int = dataclasses.field(init=False)
    row_shape: tuple[int, ...] = dataclasses.field(init=False)
    dense_shape: tuple[int, ...] = dataclasses.field(init=False)
    pixels: bool = dataclasses.field(init=False)
    feature_names: tuple[str, ...] | None = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_unlabeled", 0 if self.x_unlabeled is None else len(self.x_unlabeled))
        columns = self.sparse_columns
        object.__setattr__(self, "row_shape", self.x.shape[1:])
        object.__setattr__(self, "dense_shape", self.row_shape if columns is None else (columns,))
        object.__setattr__(self, "pixels", self.x.dtype == np.uint8)
        names = self.columns if self.encoding is None else self.encoding.outputs
        object.__setattr__(self, "feature_names", names)

    def part(self, rows: np.ndarray) -> Problem:
        """The problem of these labelled rows alone; the unlabelled ones stay."""
        x, y, weight, numbers = self.x[rows], self.y[rows], self.weight[rows], self.row_numbers[rows]
        return dataclasses.replace(self, x=x, y=y, weight=weight, row_numbers=numbers)

    def further_rows(self, x: Any, y: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
        """Rows and class numbers `[N]` of other labelled data, encoded and scaled as the training rows were."""
        x = rows_of(x, what)
        if self.sparse_columns is not None:
            x = pairs_of(as_sparse(x, what, self.sparse_columns), self.standardisation)
            return x, check_labels(y, self.classes, len(x))[1]
        if isinstance(x, SparseRows):
            x = x.dense()
        x = x if self.encoding is None else self.encoding(as_table(x, what), what)
        x = check_rows(x, what, self.row_shape)
        if self.standardisation is None:
            check_kind(x, self.pixels, what)
        return network_rows(x, self.standardisation), check_labels(y, self.classes, len(x))[1]

    def with_room(self, width: int) -> Problem:
        """The same problem, its sparse rows with room for so many values, if they had less."""
        if self.sparse_columns is None or width <= self.row_shape[0]:
            return self
        u = None if self.x_unlabeled is None else widened(self.x_unlabeled, width)
        return dataclasses.replace(self, x=widened(self.x, width), x_unlabeled=u)


def prepare(
    x: Any,
    y: Any,
    x_unlabeled: Any = None,
    sample_weight: Any = None,
    classes: Sequence[Any] | np.ndarray | None = None,
    standardize: bool | None = False,
    row_numbers: np.ndarray | None = None,
    names: tuple[str, str] = ("X", "X_unlabeled"),
    *,
    also_unlabeled: Any = None,
    column_types: ColumnTypes | None = None,
) -> Problem:
    """Checks the data, drops rows without weight, and makes numbers of the columns and scales them.

    Rows whose label is NaN, None or blank join the unlabelled ones.

    Args:
      standardize: whether to scale; None scales tables with named columns and leaves arrays as they are.
      names: what to call x and x_unlabeled in messages.
      also_unlabeled: unlabelled rows with the very columns of x.
      column_types: what columns are where their values do not tell; see `nu.fit`.
    """
    if isinstance(x_unlabeled, Unlabeled):
        x_unlabeled = x_unlabeled.rows
    x = _checked(rows_of(x, names[0]), names[0])
    y, labelled = separate(y)
    sample_weight = None if sample_weight is None else check_numbers(sample_weight, "sample_weight")
    numbers = np.arange(len(x)) if row_numbers is None else row_numbers
    x_unlabeled = opened(x_unlabeled, names[1], x.shape[1:])
    others = [] if x_unlabeled is None else [_with_a_shape(rows_of(x_unlabeled, names[1]), names[1])]
    if labelled is not None and len(labelled) == len(x):
        others, x, numbers = [*others, x[~labelled]], x[labelled], numbers[labelled]
        if np.shape(sample_weight) == labelled.shape:
            sample_weight = sample_weight[labelled]
    others += [] if also_unlabeled is None else [also_unlabeled]
    others = [part for part in others if np.shape(part)[:1] != (0,)]
    found, y = check_labels(y, classes, len(x))
    weight = check_weights(sample_weight, len(x))
    counted = weight > 0
    x, y, weight, numbers = x[counted], y[counted], weight[counted], numbers[counted]
    lazily = [part for part in others if isinstance(part, LazyRows)]
    if lazily and (len(others) > 1 or isinstance(x, SparseRows)):
        what = "is a sparse matrix" if isinstance(x, SparseRows) else "has rows without a label"
        raise InputError(
            f"{names[0]} {what}, which cannot join rows of {names[1]} that memory does not hold; give fewer of "
            "these, or all labelled rows without the others."
        )
    if any(isinstance(part, SparseRows) for part in (x, *others)):
        scaled, scaling = _as_pairs(x, others, column_types, standardize, names)
        return Problem(scaled[0], y, weight, scaled[1], found, scaling, numbers, sparse_columns=x.shape[1])
    refuse_leaks(x, y, found, names[0])
    if lazily:
        scaled_x, u, scaling, encoding = prepare_lazily(x, lazily[0], column_types, standardize, names)
        columns = encoding.columns if encoding is not None and encoding.named else None
        return Problem(scaled_x, y, weight, u, found, scaling, numbers, columns, encoding)
    encoding, x, u = _as_numbers(x, others, column_types, names)
    columns = encoding.columns if encoding is not None and encoding.named else None
    scaling = None
    if standardize or (standardize is None and columns is not None):
        parts = [x] if u is None else [x, u]
        scaling = Standardisation.fit(*parts, as_they_are=None if encoding is None else encoding.as_they_are)
    scaled = network_rows(x, scaling), None if u is None else network_rows(u, scaling)
    return Problem(scaled[0], y, weight, scaled[1], found, scaling, numbers, columns, encoding)


def _with_a_shape(rows: Any, name: str) -> Any:
    """Tables, arrays and files of rows as they are; of lists an array."""
    return rows if hasattr(rows, "shape") else check_array(rows, name)


def _checked(x: Any, name: str) -> Any:
    """A table and a sparse matrix as they are, an array of numbers; in two axes its NaN are gaps."""
    return x if isinstance(x, RawTable | SparseRows) else check_rows(x, name, gaps=True)


def _as_pairs(
    x: Any, others: list[Any], types: ColumnTypes | None, standardize: bool | None, names: tuple[str, str]
) -> tuple[tuple[np.ndarray, np.ndarray | None], Standardisation | None]:
    """Labelled and unlabelled rows, of which some are large and sparse, as pairs of one width, and their scaling."""
    if types:
        raise InputError(f"{names[0]} is a large sparse matrix, all of numbers; leave column_types out.")
    labelled = as_sparse(x, names[0])
    unlabelled = [as_sparse(part, names[1], labelled.shape[1]) for part in others]
    parts = [labelled, *([SparseRows.stacked(unlabelled)] if unlabelled else [])]
    scaling = fit_scales(*parts) if standardize else None
    width = fullest(*parts)
    pairs = [pairs_of(part, scaling, width) for part in parts]
    return (pairs[0], pairs[1] if unlabelled else None), scaling


def _as_numbers(
    x: Any, others: list[Any], types: ColumnTypes | None, names: tuple[str, str]
) -> tuple[TableEncoding | None, np.ndarray, np.ndarray | None]:
    """Labelled and unlabelled rows as numbers `[N, …]` and `[M, …]`, and by which encoding, if they need one."""
    declared = {} if types is None else read_column_types(types)
    if not isinstance(x, RawTable):
        others = [check_rows(part, names[1], x.shape[1:], gaps=True) for part in others]
        for part in others:
            check_kind(part, x.dtype == np.uint8, names[1])
        if not declared and not _has_gaps(x, *others):
            return None, x, np.concatenate(others) if others else None
    tables = [as_table(part, names[1]) for part in others]
    table = as_table(x, names[0])
    table.only(name for name in table.names if name not in declared).note_numbers(names[0])
    encoding, (x, *others) = TableEncoding.fit(table.declared(declared, names[0]), *tables, names=names)
    return encoding, x, np.concatenate(others) if others else None


def _has_gaps(*parts: np.ndarray) -> bool:
    return any(part.ndim == 2 and part.dtype.kind == "f" and bool(np.isnan(part).any()) for part in parts)


def labelled_pair(validation: Any) -> tuple[Any, Any]:
    """The rows of a validation set `(x, y)` that have a label; refuses what is no pair."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise InputError("validation must be a pair, (x, y).")
    x, (y, labelled) = rows_of(validation[0], "the validation x"), separate(validation[1], "the validation y")
    if labelled is None:
        return x, y
    return (x if isinstance(x, RawTable | SparseRows) else np.asarray(x))[labelled], y
