"""From checked rows to what a network takes: bytes as they are, numbers as float32, tables standardised on request.

Standardised, each column has mean zero and unit variance over labelled and unlabelled rows.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from nu_ensembles.errors import InputError


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

    def same_as(self, other: Standardisation | None) -> bool:
        return other is not None and bool(
            np.array_equal(self.mean, other.mean) and np.array_equal(self.scale, other.scale)
        )


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
