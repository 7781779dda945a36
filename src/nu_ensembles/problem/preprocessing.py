"""From checked rows to what a network takes: bytes as they are, numbers as float32, tables standardised on request.

Standardised, each column has mean zero and unit variance over labelled and unlabelled rows. Two kinds of columns have
not: indicators stay 0 and 1, and what is mostly zero (counts, TF-IDF, borders of digits) keeps its zeros and is divided
so that its other values are of size 2 at most (root mean square). Divided by its small deviation instead, a word that
is in one text of a hundred would come out at 10: benchmarks/zeros_scaling.py measures what that costs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from nu_ensembles.errors import InputError
from nu_ensembles.problem.inputs import check_rows
from nu_ensembles.rows import LazyRows
from nu_ensembles.tables import RawTable

# A column with a smaller share of values beside zero is mostly zero; those values come out at this size at most.
MOSTLY, MOST = 0.5, 2.0


@dataclasses.dataclass(frozen=True, eq=False)
class Standardisation:
    """`(x - mean) / scale`, in float64 so that large offsets do not swallow small differences.

    mean, scale: float64 `[…]`, of a row's shape; the mean is 0 where a column is not centred.
    """

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, *parts: np.ndarray | LazyRows, as_they_are: np.ndarray | None = None) -> Standardisation:
        """Over the rows of all parts together, to the same bits whether memory holds them or not.

        Args:
          as_they_are: columns that are not scaled, bool of a row's shape.
        """
        n_rows = sum(len(part) for part in parts)
        mean = sum(_total(part, lambda rows: rows) for part in parts) / n_rows
        variance = sum(_total(part, lambda rows: np.square(rows - mean)) for part in parts) / n_rows
        deviation = np.sqrt(variance)
        # A constant column would divide by zero or by rounding noise; it carries nothing, so leave it at zero.
        constant = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
        scale = np.where(constant, 1.0, deviation)
        n_filled = sum(np.count_nonzero(rows, axis=0) for part in parts for rows in _in_parts(part))
        mostly_zero = np.asarray(n_filled < MOSTLY * n_rows)
        if mostly_zero.any():
            squares = sum(_total(part, lambda rows: np.square(rows, dtype=np.float64)) for part in parts)
            keeping = zeros_kept(scale, squares, n_filled)
            mean, scale = np.where(mostly_zero, 0.0, mean), np.where(mostly_zero, keeping, scale)
        if as_they_are is not None:
            mean, scale = np.where(as_they_are, 0.0, mean), np.where(as_they_are, 1.0, scale)
        return cls(np.asarray(mean), scale)

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return ((x - self.mean) / self.scale).astype(np.float32)

    def same_as(self, other: Standardisation | None) -> bool:
        return other is not None and bool(
            np.array_equal(self.mean, other.mean) and np.array_equal(self.scale, other.scale)
        )


def _in_parts(part: np.ndarray | LazyRows) -> Iterator[np.ndarray]:
    return iter([part]) if isinstance(part, np.ndarray) else part.in_parts()


def _total(part: np.ndarray | LazyRows, value: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The sum of `value(rows)` over the rows.

    NumPy adds rows of several numbers one after another, so it goes on where it was if what was summed comes first. A
    single column it adds in pairs, and that one has to be whole.
    """
    if isinstance(part, np.ndarray):
        return value(part).sum(axis=0, dtype=np.float64)
    if int(np.prod(part.shape[1:])) == 1:
        return np.concatenate([value(rows) for rows in part.in_parts()]).sum(axis=0, dtype=np.float64)
    total = np.zeros((0, *part.shape[1:]))
    for rows in part.in_parts():
        total = np.concatenate([total, value(rows)]).sum(axis=0, dtype=np.float64, keepdims=True)
    return total[0]


def zeros_kept(deviation: np.ndarray, squares: Any, n_filled: Any) -> np.ndarray:
    """By what columns are divided whose zeros stay zeros.

    Args:
      deviation: their standard deviations; squares: sums of their squares; n_filled: how many values are not zero.
    """
    return np.maximum(deviation, np.sqrt(squares / np.maximum(n_filled, 1)) / MOST)


def as_table(x: Any, what: str) -> RawTable:
    """Rows of numbers as a table without names; a table as it is."""
    return x if isinstance(x, RawTable) else RawTable.of_numbers(check_rows(x, what, least_rows=0, gaps=True))


def check_kind(x: np.ndarray, pixels: bool, name: str) -> None:
    """Refuses bytes where numbers were trained on, and the other way round: they would be scaled differently."""
    if (x.dtype == np.uint8) != pixels:
        raise InputError(
            f"{name} holds {x.dtype} where the labelled training rows hold {'uint8' if pixels else 'other numbers'}: "
            "bytes are taken for pixels and divided by 255, so both must be uint8 or neither."
        )


def network_rows(x: np.ndarray, standardisation: Standardisation | None) -> np.ndarray:
    """Checked rows as they go to the device: uint8 (pixels, unless standardised) or float32."""
    if standardisation is None and x.dtype == np.uint8:
        return x
    with np.errstate(over="ignore"):
        rows = x.astype(np.float32) if standardisation is None else standardisation(x)
    if not np.isfinite(rows).all():
        raise InputError("The inputs hold values beyond float32's range; rescale them, or standardise them.")
    return rows
