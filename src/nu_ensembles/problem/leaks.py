"""A column that gives the label away: it would be learnt perfectly, and is not there when it is needed."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.tables import RawColumn, RawTable
from nu_ensembles.tables.column import plain_number

# With fewer rows a column may tell the classes apart by chance.
FEW_ROWS = 20


def refuse_leaks(x: Any, y: np.ndarray, classes: np.ndarray, what: str) -> None:
    """Refuses a column of a table that equals the labels, and warns of one that says the same in other words.

    Args:
      x: rows; only those of tables with names are looked at.
      y: class numbers `[N]`.
      classes: `[C]`.
      what: to call x in messages.
    """
    if not isinstance(x, RawTable) or not x.named or len(x) == 0:
        return
    present = np.unique(y)
    labels = [_word(label) for label in classes[present].tolist()]
    for part in x.parts:
        if not _one_value_a_class(part, y, len(classes)):
            continue
        firsts = np.array([int(np.argmax(y == code)) for code in present])
        if part[firsts].words() == labels:
            raise InputError(
                f"The column {part.name!r} of {what} equals the labels, so there is nothing to predict; leave it out."
            )
        if len(x) >= FEW_ROWS and len(labels) > 1:
            note = f"The column {part.name!r} of {what} says what the labels say in other words; leave it out."
            warnings.warn(note, DataWarning, stacklevel=3)


def _one_value_a_class(part: RawColumn, y: np.ndarray, n_classes: int) -> bool:
    """Whether each value goes with one class, and each class with one value."""
    if part.kind == "date" or len(np.unique(part.values[:1000])) > n_classes or part.gaps.any():
        return False
    values, codes = np.unique(part.values, return_inverse=True)
    n_present = len(np.unique(y))
    n_pairs = len(np.unique(codes.astype(np.int64) * n_classes + y))
    return len(values) == n_present == n_pairs


def _word(label: Any) -> str:
    """A label as a column would say it: 3 for 3.0, 1 for True."""
    return plain_number(float(label)) if isinstance(label, bool | int | float) else str(label)
