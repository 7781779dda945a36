"""Labels with gaps: a row whose label is blank, NaN or None is an unlabelled row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nu_ensembles.checks import check_array
from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.tables import is_gap


def labelled_rows(y: np.ndarray) -> np.ndarray:
    """Which labels are given, bool `[N]`; infinity is no gap, and refused later as a label."""
    if y.dtype.kind == "f":
        return ~np.isnan(y)
    if y.dtype.kind == "U":
        return np.char.strip(y) != ""
    if y.dtype.kind == "O":
        return np.array([not (is_gap(label) or (isinstance(label, str) and not label.strip())) for label in y], bool)
    return np.ones(len(y), bool)


def only_labelled(y: np.ndarray, labelled: np.ndarray) -> np.ndarray:
    """The labels that are given, of the type that they have without the gaps: beside None, numbers are objects."""
    y = y[labelled]
    if y.dtype.kind == "f" and np.isinf(y).any():
        raise InputError(f"y contains infinity in {int(np.isinf(y).sum())} row(s); give a class, or NaN for no label.")
    if y.dtype.kind == "O":
        plain = np.asarray(y.tolist())
        return plain if plain.dtype.kind in "biuf" and plain.ndim == 1 else y
    return y


def check_targets(y: np.ndarray) -> None:
    """Refuses labels of which scikit-learn says that they are no classes."""
    from sklearn.utils.multiclass import check_classification_targets

    try:
        check_classification_targets(y)
    except ValueError as error:
        raise InputError(f"{error} Use whole numbers, text, booleans or dates.") from None


def separate(y: Any, name: str = "y") -> tuple[np.ndarray, np.ndarray | None]:
    """The labels that are given, and which rows have one; None where all have. Says how many have none.

    Raises:
      InputError: no row has one.
    """
    y = check_array(y, name)
    if y.ndim != 1:
        return y, None  # of the wrong shape, as is said later
    labelled = labelled_rows(y)
    if labelled.all():
        return y, None
    note_gaps(labelled, name)
    return only_labelled(y, labelled), labelled


def note_gaps(labelled: np.ndarray, name: str = "y") -> None:
    """Says how many rows have no label; refuses labels of which none is given."""
    n_gaps = int((~labelled).sum())
    if n_gaps == len(labelled):
        raise InputError(f"{name} holds no label at all (NaN, None and blanks stand for none); label some rows.")
    if n_gaps:
        rows = f"{n_gaps} of {len(labelled)} rows"
        note = f"{rows} without a label in {name} (NaN, None or blank) are taken as unlabelled."
        warnings.warn(note, DataWarning, stacklevel=4)
