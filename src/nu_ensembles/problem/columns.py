"""Columns with names: those of a data frame are kept with the model, and other frames are matched to them by name."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from nu_ensembles.errors import InputError

# Names that a sentence lists; a table may have thousands.
MOST_LISTED = 5


def column_names(x: Any) -> tuple[str, ...] | None:
    """The names of a data frame's columns; None for an array, or where they are not text."""
    names = getattr(x, "columns", None)
    if names is None or callable(names):
        return None
    names = list(names)
    return tuple(names) if names and all(isinstance(name, str) for name in names) else None


def in_order(x: Any, names: Sequence[str] | None, what: str) -> Any:
    """A frame's columns in the order of these names; whatever has no names is taken as it is.

    Args:
      names: of the training rows, or None where they had none.
      what: to call x in messages.

    Raises:
      InputError: a column is missing.
    """
    found = column_names(x)
    if names is None or found is None or found == tuple(names):
        return x
    missing = [name for name in names if name not in found]
    extra = [name for name in found if name not in names]
    if missing:
        more = f" (it has {listed(extra)}, which the training rows had not)" if extra else ""
        raise InputError(f"{what} lacks the column(s) {listed(missing)} of the training rows{more}; add them.")
    if extra:
        warnings.warn(
            f"{what} has columns that the training rows had not, which are ignored: {listed(extra)}.", stacklevel=3
        )
    return x[list(names)]


def listed(names: Sequence[str]) -> str:
    """Names for a sentence."""
    shown = ", ".join(map(repr, names[:MOST_LISTED]))
    return shown if len(names) <= MOST_LISTED else f"{shown}, … ({len(names)} in all)"
