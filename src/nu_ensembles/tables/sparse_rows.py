"""Rows of a sparse matrix that are too many values to be made dense."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from scipy.sparse import csr_array, vstack

from nu_ensembles.errors import InputError

# Training keeps all rows on the device, so a sparse matrix is made dense: up to this many values, 0.5 GB as float32.
MOST_DENSE = 1 << 27
# Column numbers go to the device as float32, which knows whole numbers up to here.
MOST_COLUMNS = 1 << 24


@dataclasses.dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows `[N, F]`, nearly all of them zero.

    matrix: a `csr_array` with neither repeated nor stored zeros.
    """

    matrix: Any  # as which SciPy's own types would not know half of what it can

    @classmethod
    def of(cls, x: Any, what: str) -> SparseRows:
        """From a sparse matrix of any format.

        Args:
          what: to call x in messages.
        """
        if x.dtype.kind not in "biuf" or x.dtype == np.uint8:
            kind = "bytes, which are taken for pixels" if x.dtype == np.uint8 else f"{x.dtype} values"
            raise InputError(f"{what} is a sparse matrix of {kind}; give numbers, as in x.astype('float32').")
        matrix: Any = csr_array(x, dtype=x.dtype if x.dtype == np.float32 else np.float64, copy=True)
        matrix.sum_duplicates()
        matrix.eliminate_zeros()
        if not np.isfinite(matrix.data).all():
            at = int(np.argmin(np.isfinite(matrix.data)))
            row = int(np.searchsorted(matrix.indptr, at, side="right")) - 1
            raise InputError(
                f"{what} is a sparse matrix with a value that is not finite, the first in row {row}; in one so large "
                "gaps are not filled: fill in or remove them first."
            )
        if matrix.shape[1] > MOST_COLUMNS:
            raise InputError(
                f"{what} has {matrix.shape[1]:,} columns, and sparse rows may have {MOST_COLUMNS:,}; reduce them, with "
                "a hashing vectoriser of fewer features."
            )
        return cls(matrix)

    @property
    def shape(self) -> tuple[int, int]:
        n_rows, n_columns = self.matrix.shape
        return n_rows, n_columns

    @property
    def dtype(self) -> np.dtype:
        return self.matrix.dtype

    @property
    def ndim(self) -> int:
        return 2

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> SparseRows:
        """The rows of a slice, of numbers or of a mask."""
        if isinstance(rows, tuple):  # [rows, ...], as scikit-learn writes it
            rows = rows[0]
        return SparseRows(self.matrix[rows])

    def dense(self) -> np.ndarray:
        """`[N, F]`; for as many rows at a time as fit."""
        return self.matrix.toarray()

    @staticmethod
    def stacked(parts: list[SparseRows]) -> SparseRows:
        """The rows of all parts, one after another."""
        return SparseRows(csr_array(vstack([part.matrix for part in parts], format="csr")))


def is_sparse(x: Any) -> bool:
    """Whether it is a sparse matrix of SciPy's (or one like it)."""
    return hasattr(x, "toarray") and hasattr(x, "nnz")


def dense_or_sparse(x: Any, what: str) -> np.ndarray | SparseRows:
    """A sparse matrix as a dense array, if it is not too large for that.

    Args:
      what: to call x in messages.
    """
    n_values = int(np.prod(x.shape, dtype=np.int64))
    return x.toarray() if n_values <= MOST_DENSE else SparseRows.of(x, what)
