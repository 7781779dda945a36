"""Rows that stay where they are (a file, a data base) until they are needed: what memory cannot hold.

Whoever trains or predicts asks for `shape`, `dtype` and `take(numbers of rows)`, which NumPy arrays have as well.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np

# Rows that are looked at or predicted at a time, however many there are.
ROWS_AT_A_TIME = 1 << 16


class LazyRows(ABC):
    """Rows `[N, …]` of which a few are taken at a time.

    Attributes:
      shape: of all of them, with their number.
      dtype: of what `take` gives.
      fingerprint: tells them from all others: the same one means the same rows.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    fingerprint: str

    @abstractmethod
    def take(self, indices: Any, axis: int = 0) -> Any:
        """The rows of these numbers, `[n, …]`; `axis` is always the first."""

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def __len__(self) -> int:
        return self.shape[0]

    def __getitem__(self, rows: Any) -> Any:
        """The rows of a slice, of numbers or of a mask, in memory; `[rows, column]` as an array has it."""
        if isinstance(rows, tuple):
            return self[rows[0]][(slice(None), *rows[1:])]
        if isinstance(rows, slice):
            return self.take(np.arange(*rows.indices(len(self))))
        rows = np.asarray(rows)
        return self.take(np.flatnonzero(rows) if rows.dtype == bool else rows)

    def in_parts(self, first: int = 0) -> Iterator[Any]:
        """The rows from `first` on in their order, some at a time; whoever can read them faster so does."""
        for start in range(first, len(self), ROWS_AT_A_TIME):
            yield self[start : start + ROWS_AT_A_TIME]
