"""Class labels as JSON: text, numbers, booleans, and dates of NumPy or Python."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from nu_ensembles.contents.fields import listing, mapping, plain, text, unfit
from nu_ensembles.errors import InputError

_SIMPLE = str | int | float | bool
_DTYPE = re.compile(r"\|O|[<>|=]([biufU]\d+|[Mm]8\[\w+\])")
# Objects of Python that are kept as text; a datetime is a date, too, so it is asked for first.
_AS_TEXT: dict[str, tuple[type, Callable[[str], Any]]] = {
    "datetime": (datetime.datetime, datetime.datetime.fromisoformat),
    "date": (datetime.date, datetime.date.fromisoformat),
}
MOST_CLASSES = 1_000_000


def classes_to_json(classes: np.ndarray) -> dict[str, Any]:
    """Plain values, from which `check_classes` makes the same labels.

    Raises:
      InputError: labels of a type that cannot be saved.
    """
    if classes.dtype.kind in "Mm":
        return {"dtype": classes.dtype.str, "values": classes.astype(np.int64).tolist()}
    values = classes.tolist()
    for name, (kind, _) in _AS_TEXT.items():
        # Subclasses, such as a Timestamp of pandas, know more than their text does.
        if values and all(type(value) is kind for value in values):
            return {"dtype": "|O", "as": name, "values": [value.isoformat() for value in values]}
    if not all(isinstance(value, _SIMPLE) for value in values):
        raise InputError("Only classes that are text, numbers, booleans or dates can be saved; rename them first.")
    return {"dtype": classes.dtype.str, "values": values}


def check_classes(entry: Any, where: str) -> np.ndarray:
    """The labels `[C]` that a file names, each once."""
    entry = mapping(plain)(entry, where)
    dtype = text(40)(entry.get("dtype"), f"{where}: 'dtype'")
    values = list(listing(_simple, least=1, most=MOST_CLASSES)(entry.get("values"), f"{where}: 'values'"))
    longest = max((len(value) for value in values if isinstance(value, str)), default=0)
    too_wide = dtype[1:2] == "U" and dtype[2:].isdigit() and int(dtype[2:]) > max(256, 16 * longest)
    if not _DTYPE.fullmatch(dtype) or too_wide:
        raise unfit(f"{where}: 'dtype'", "the type of its values", dtype)
    try:
        classes = _array(entry.get("as"), dtype, values)
        distinct = len(set(classes.tolist())) == len(classes)
    except (TypeError, ValueError, OverflowError, KeyError):
        raise unfit(where, f"labels of the type {dtype}", entry.get("as")) from None
    if classes.tolist() != values and dtype[1] not in "MmO":
        raise unfit(where, f"labels of the type {dtype}", values[0])
    if not distinct:
        raise unfit(where, "a list that names each class once", "one that repeats some")
    return classes


def _array(said: Any, dtype: str, values: list[Any]) -> np.ndarray:
    if said is not None:
        values = [_AS_TEXT[said][1](value) for value in values]
    if dtype[1] in "Mm":
        if not all(isinstance(value, int) for value in values):
            raise ValueError
        return np.array(values, np.int64).view(np.dtype(dtype).newbyteorder("=")).astype(dtype)
    if dtype != "|O":
        return np.array(values, dtype)
    classes = np.empty(len(values), object)  # not np.array, which would look into the values
    classes[:] = values
    return classes


def _simple(value: Any, where: str) -> Any:
    if not isinstance(value, _SIMPLE):
        raise unfit(where, "text, a number or a boolean", value)
    return value
