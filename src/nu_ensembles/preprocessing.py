"""Standardisation of tables: each column to mean zero and unit variance over labelled and unlabelled rows."""

from __future__ import annotations

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True, eq=False)
class Standardisation:
    """`(x - mean) / scale`, in float64 so that large offsets do not swallow small differences.

    mean, scale: float64 `[…]`, of a row's shape.
    """

    mean: np.ndarray
    scale: np.ndarray

    @classmethod
    def fit(cls, *parts: np.ndarray) -> Standardisation:
        """Over the rows of all parts together."""
        n_rows = sum(len(part) for part in parts)
        mean = sum(part.sum(axis=0, dtype=np.float64) for part in parts) / n_rows
        variance = sum(np.square(part - mean).sum(axis=0) for part in parts) / n_rows
        deviation = np.sqrt(variance)
        # A constant column would divide by zero or by rounding noise; it carries nothing, so leave it at zero.
        constant = deviation <= 1e-12 * np.maximum(np.abs(mean), 1e-300)
        return cls(np.asarray(mean), np.where(constant, 1.0, deviation))

    def __call__(self, x: np.ndarray) -> np.ndarray:
        return ((x - self.mean) / self.scale).astype(np.float32)
