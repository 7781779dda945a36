"""Sparse rows as a network takes them: pairs of a column's number and its value, as many as the fullest row has.

They are divided and never centred, so that zeros stay zeros, by the same numbers as a dense column that is mostly zero.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array

from nu_ensembles.errors import InputError
from nu_ensembles.problem.preprocessing import Standardisation, zeros_kept
from nu_ensembles.tables import RawTable, SparseRows
from nu_ensembles.tables.sparse_rows import MOST_DENSE

# What two sets of sparse rows are compared by: columns thrown into so many, with a sign each.
COMPARED = 256
_SPREAD = np.uint64(0x9E3779B97F4A7C15)  # 2**64 over the golden ratio, odd


def as_sparse(x: Any, what: str, n_columns: int | None = None) -> SparseRows:
    """Rows beside sparse ones, as such.

    Args:
      x: sparse or dense rows.
      what: to call them in messages.
      n_columns: how many columns they must have, if known.
    """
    if isinstance(x, RawTable) or np.ndim(x) != 2:
        kind = "a data frame" if isinstance(x, RawTable) else f"an array of shape {np.shape(x)}"
        raise InputError(f"{what} is {kind} beside a large sparse matrix; give a matrix of the same columns.")
    rows = x if isinstance(x, SparseRows) else SparseRows.of(csr_array(np.asarray(x)), what)
    if n_columns is not None and rows.shape[1] != n_columns:
        raise InputError(
            f"{what} has {rows.shape[1]:,} columns where {n_columns:,} are expected; give it the same columns in the "
            "same order as the training data."
        )
    return rows


def fit_scales(*parts: SparseRows) -> Standardisation:
    """By what columns are divided, over the rows of all parts together; the mean is left where it is."""
    rows = SparseRows.stacked(list(parts))
    column, values, n_columns = rows.matrix.indices, rows.matrix.data.astype(np.float64), rows.shape[1]
    n_filled = np.bincount(column, minlength=n_columns)
    mean = np.bincount(column, values, n_columns) / len(rows)
    squares = np.bincount(column, values**2, n_columns)
    deviation = np.sqrt(np.maximum(squares / len(rows) - np.square(mean), 0.0))
    scale = zeros_kept(deviation, squares, n_filled)
    return Standardisation(np.zeros_like(scale), np.where(n_filled == 0, 1.0, scale))


def pairs_of(rows: SparseRows, scaling: Standardisation | None, width: int | None = None) -> np.ndarray:
    """Float32 `[N, M, 2]`.

    Args:
      width: M; None for the number of values in the fullest row.

    Raises:
      InputError: one row is so full that the pairs of all do not fit, or a value is beyond float32.
    """
    matrix = rows.matrix
    counts = np.diff(matrix.indptr)
    width = fullest(rows) if width is None else width
    if len(rows) * width * 2 > MOST_DENSE:
        raise InputError(
            f"The fullest sparse row has {width:,} value(s) other than zero, and {len(rows):,} rows with room for as "
            "many do not fit; give fewer rows, or reduce the columns with sklearn.decomposition.TruncatedSVD."
        )
    values = matrix.data if scaling is None else matrix.data / scaling.scale[matrix.indices]
    pairs = np.zeros((len(rows), width, 2), np.float32)
    row = np.repeat(np.arange(len(rows)), counts)
    place = np.arange(matrix.nnz) - np.repeat(matrix.indptr[:-1], counts)
    with np.errstate(over="ignore"):
        pairs[row, place, 0], pairs[row, place, 1] = matrix.indices, values
    if not np.isfinite(pairs).all():
        raise InputError("The inputs hold values beyond float32's range; rescale them, or standardise them.")
    return pairs


def fullest(*parts: SparseRows) -> int:
    """How many values the row with most of them has; at least one."""
    return max([1, *(int(np.diff(part.matrix.indptr).max(initial=0)) for part in parts)])


def widened(pairs: np.ndarray, width: int) -> np.ndarray:
    """Pairs `[N, M, 2]` with room for more."""
    return np.pad(pairs, ((0, 0), (0, width - pairs.shape[1]), (0, 0)))


def thrown_together(pairs: np.ndarray) -> np.ndarray:
    """Pairs as `[N, 256]`: each column is added to one of these, or taken from it, as feature hashing does.

    Weinberger et al., *Feature Hashing for Large Scale Multitask Learning*, 2009. For tests that compare sets of rows.
    """
    mixed = pairs[..., 0].astype(np.uint64) * _SPREAD >> np.uint64(40)
    sign = np.where(mixed & np.uint64(COMPARED), 1.0, -1.0)
    found = np.zeros((len(pairs), COMPARED))
    rows = np.repeat(np.arange(len(pairs)), pairs.shape[1])
    np.add.at(found, (rows, (mixed % np.uint64(COMPARED)).astype(int).ravel()), (sign * pairs[..., 1]).ravel())
    return found
