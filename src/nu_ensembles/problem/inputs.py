"""What the user hands in, checked once at the edge; inside, code trusts it."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from nu_ensembles.checks import check_array, shown
from nu_ensembles.errors import InputError


@dataclasses.dataclass(frozen=True)
class Unlabeled:
    """Unlabelled rows in a wrapper without a length.

    `GridSearchCV` slices every fit argument that has as many rows as X; unlabelled rows must never be sliced with
    the labelled ones. Pass `X_unlabeled=nu.Unlabeled(U)` there.

    Attributes:
      rows: `[m, …]`, the unlabelled rows.
    """

    rows: Any


def check_rows(
    x: Any,
    name: str,
    row_shape: tuple[int, ...] | None = None,
    least_rows: int = 1,
    first_row: int = 0,
    gaps: bool = False,
) -> np.ndarray:
    """Rows of numbers: bytes stay bytes (they are pixels), everything else becomes float32 or float64.

    Args:
      x: array-like `[N, …]`, at least two axes.
      name: what to call it in an error ("X", "X_unlabeled").
      row_shape: the shape that a row must have, if known.
      first_row: the number of x's first row in what the user gave, for errors.
      gaps: take the NaN of a table `[N, F]` for gaps, and refuse infinity only.

    Raises:
      InputError: not numbers, not finite, of another shape, or too few.
    """
    x = check_array(x, name)
    if x.dtype.kind not in "biuf":
        raise InputError(
            f"{name} holds {x.dtype} values; give an array of numbers, or text and dates in a data frame, whose "
            "columns have a type each."
        )
    if x.ndim < 2:
        raise InputError(
            f"{name} has shape {x.shape}; give one row per sample, [n, features] or [n, height, width, channels] "
            "(a single feature: x.reshape(-1, 1); a single sample: x.reshape(1, -1))."
        )
    if row_shape is not None and x.shape[1:] != row_shape:
        raise InputError(
            f"{name} has rows of shape {x.shape[1:]} where {row_shape} is expected; give it the same columns in the "
            "same order as the training data."
        )
    if len(x) < least_rows:
        raise InputError(f"{name} has {len(x)} rows; at least {least_rows} needed.")
    if x.shape[1:] and 0 in x.shape[1:]:
        raise InputError(f"{name} has 0 feature(s) (shape {x.shape}) while a minimum of 1 is required.")
    if x.dtype == np.uint8:
        return x
    if x.dtype.kind != "f":
        return x.astype(np.float64)
    if x.dtype.itemsize != 8:
        x = x.astype(np.float32 if x.dtype.itemsize < 8 else np.float64)
    usable = ~np.isinf(x) if gaps and x.ndim == 2 else np.isfinite(x)
    finite = usable.all(axis=tuple(range(1, x.ndim)))
    if not finite.all():
        bad = x[~finite]
        kind = "NaN" if np.isnan(bad).any() and not gaps else "infinity"
        n_bad, row = int((~usable).sum()), first_row + int(np.argmin(finite))
        raise InputError(
            f"{name} contains {kind}: {n_bad} value(s) not finite, the first in row {row}; fill in or remove them "
            "first."
        )
    return x


def check_labels(y: Any, classes: Sequence[Any] | np.ndarray | None, n_rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Classes and the class number of each row.

    Args:
      y: labels `[N]` of any kind: numbers, strings, booleans.
      classes: all classes in the wished order, where not all occur in y; sorted unique labels by default.

    Returns:
      classes `[C]` and int32 codes `[N]`.
    """
    y = check_array(y, "y")
    if y.ndim != 1 or len(y) != n_rows:
        raise InputError(f"y has shape {y.shape} where ({n_rows},) is expected: one label per row of X.")
    if y.dtype.kind == "f":
        if not np.isfinite(y).all():
            raise InputError(f"y contains NaN or infinity in {int((~np.isfinite(y)).sum())} row(s); remove those rows.")
        fractions = np.flatnonzero(y != np.floor(y))
        if len(fractions):
            raise InputError(
                f"Unknown label type: y holds fractions (row {fractions[0]}: {y[fractions[0]]:g}), and a classifier "
                "needs classes; use whole numbers or strings."
            )
        if len(y) and np.abs(y).max() >= 2**53:
            raise InputError(
                f"y holds {y[np.argmax(np.abs(y))]:.0f} as a floating-point number, and beyond 2^53 different labels "
                "become the same one; give whole numbers of one type (int64, uint64) or text."
            )
    if classes is None:
        try:
            found, codes = np.unique(y, return_inverse=True)
        except TypeError:
            raise InputError("y mixes labels of different types; use one type for all.") from None
    else:
        found = check_array(classes, "classes")
        try:
            position = {label: number for number, label in enumerate(np.atleast_1d(found).tolist())}
        except TypeError:
            position = {}
        if found.ndim != 1 or not position:
            raise InputError(f"classes must be a list of labels, each once, not {shown(classes)}.")
        if len(position) < len(found):
            raise InputError(f"classes names a class twice: {found.tolist()}; name each one once.")
        try:
            strange = [label for label in dict.fromkeys(y.tolist()) if label not in position]
        except TypeError:
            raise InputError("y holds labels that are no text, number, boolean or date; give one of these.") from None
        if strange:
            raise InputError(
                f"y holds the label {strange[0]!r}, which is not among the classes {found.tolist()}; leave its rows "
                "out, or train on some."
            )
        codes = np.array([position[label] for label in y.tolist()])
    if len(found) < 2:
        raise InputError(f"y holds one class only ({found.tolist()[0]!r}); a classifier needs at least two classes.")
    return found, codes.astype(np.int32)


def usable_weights(weight: np.ndarray) -> np.ndarray:
    """Weights, finite and not negative, of which one counts and whose sum is a number; only their ratios matter."""
    if not np.isfinite(weight).all() or (weight < 0).any():
        raise InputError("sample_weight must be finite and not negative.")
    if not (weight > 0).any():
        raise InputError("sample_weight is zero for every row; at least one row must count.")
    with np.errstate(over="ignore"):
        return weight / weight.max() if np.isinf(weight.sum()) else weight


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Weights with mean one over the rows that count; float32 `[N]`."""
    if sample_weight is None:
        return np.ones(n_rows, np.float32)
    weight = np.asarray(sample_weight, dtype=np.float64)
    if weight.ndim == 0:
        weight = np.full(n_rows, float(weight))
    if weight.shape != (n_rows,):
        raise InputError(f"sample_weight has shape {weight.shape} where ({n_rows},) is expected: one per row of X.")
    weight = usable_weights(weight)
    return (weight / weight[weight > 0].mean()).astype(np.float32)
