"""Checks of single arguments, each with the sentence that says what would do."""

from __future__ import annotations

import contextlib
import math
import operator
import os
from collections.abc import Iterable
from numbers import Real
from typing import TYPE_CHECKING, Any

from nu_ensembles.errors import InputError, shown, unknown_name

if TYPE_CHECKING:
    import numpy as np

# Bytes of a name in a folder, and of a whole path: file systems take no longer ones.
LONGEST_NAME, LONGEST_PATH = 255, 4095
# Longer whole numbers count nothing, and are none of floating point.
LARGEST = 1 << 256
# Of a whole number in data: a floating-point number holds no more.
MOST_BITS = 1024


def check_whole(value: Any, name: str, least: int = 1, most: int | None = None) -> int:
    """A whole number of at least `least`, and of at most `most`."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least or number > LARGEST:
        raise InputError(f"{name} must be a whole number of at least {least}, not {shown(value)}.")
    if most is not None and number > most:
        raise InputError(f"{name} must be at most {most}, not {shown(value)}.")
    return number


def check_positive(value: Any, name: str, zero_allowed: bool = False, below: float = math.inf) -> float:
    """A finite number above (or, if allowed, at) zero, and below a limit."""
    number = _as_float(value)
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero_allowed) or number >= below:
        least = "number of at least" if zero_allowed else "number above"
        limit = "" if below == math.inf else f" and below {below:g}"
        raise InputError(f"{name} must be a {least} 0{limit}, not {shown(value)}.")
    return number


def _as_float(value: Any) -> float:
    """A real number, also NumPy's; NaN for anything else and for what floating point cannot hold."""
    try:
        return float(value) if isinstance(value, Real) else math.nan
    except (TypeError, OverflowError):  # NumPy counts durations among the real numbers
        return math.nan


def check_flag(value: Any, name: str) -> bool:
    """True or False, also as NumPy has them, or as 1 and 0."""
    import numpy as np

    # NumPy counts durations among the whole numbers.
    if (
        isinstance(value, bool | np.bool_ | int | np.integer)
        and not isinstance(value, np.timedelta64)
        and value in (0, 1)
    ):
        return bool(value)
    raise InputError(f"{name} must be True or False, not {shown(value)}.")


def check_name(value: Any, kind: str, known: Iterable[str]) -> str:
    """One of some names."""
    names = list(known)
    if not isinstance(value, str) or value not in names:
        raise unknown_name(kind, value, names)
    return value


def check_array(value: Any, name: str) -> np.ndarray:
    """What may be taken as an array: not rows of different lengths."""
    import numpy as np

    try:
        array = np.asarray(value)
    except MemoryError:
        raise
    except Exception:  # foreign arrays raise what they like: a tensor that wants its gradient, a key
        raise InputError(f"{name} cannot be taken as an array: give one whose rows are equally long.") from None
    if array.dtype.kind == "O":
        _refuse_huge(array, name)
    return array


def _refuse_huge(array: np.ndarray, name: str) -> None:
    """Refuses whole numbers that become neither a number of an array nor, within Python's own limit, text."""
    if any(isinstance(each, int) and each.bit_length() > MOST_BITS for each in array.flat):
        raise InputError(
            f"{name} holds a whole number of more than {MOST_BITS} bits, which no array of numbers holds; give it as "
            "text, or leave it out."
        )


def refuse_foreign(value: Any, name: str) -> None:
    """Refuses an array of others that will not become one of NumPy's, such as a tensor on another device.

    scikit-learn would hand on whatever such an array raises, and what whole numbers of thousands of digits do.
    """
    import numpy as np

    if hasattr(value, "__array__") and not isinstance(value, np.ndarray):
        check_array(value, name)
    elif isinstance(value, int | list | tuple | np.ndarray):
        try:
            array = np.asarray(value)
        except (TypeError, ValueError):
            return  # of what is ragged scikit-learn says so itself
        if array.dtype.kind == "O":
            _refuse_huge(array, name)


def check_numbers(value: Any, name: str) -> np.ndarray:
    """What may be taken as an array of real numbers; objects that are some become float64."""
    import numpy as np

    array = check_array(value, name)
    if array.dtype.kind == "O":
        with contextlib.suppress(TypeError, ValueError, OverflowError):
            array = array.astype(np.float64)
    # NumPy does not count the short floating-point numbers of machine learning among its own.
    if array.dtype.kind not in "biuf" and not np.can_cast(array.dtype, np.float64):
        raise InputError(f"{name} must be an array of numbers, not of {array.dtype}.")
    return array


def check_coefficient(name: str, value: Any, advice: str, below: float = math.inf) -> None:
    """Refuses a number outside `0 <= value < below`, and text.

    For the `__post_init__` of methods, which also runs inside programs, where the value is a tracer that was checked
    when it was a number.
    """
    if isinstance(value, str) or (isinstance(value, Real) and not (0 <= _as_float(value) < below)):
        limit = "" if below == math.inf else f" and below {below:g}"
        raise InputError(f"{name} must be a number of at least 0{limit}, not {shown(value)}; {advice}.")


def is_path(value: Any) -> bool:
    """Whether a file could be there: text or a path, no longer than file systems have them."""
    if not isinstance(value, str | os.PathLike) or not isinstance(path := os.fspath(value), str) or "\0" in path:
        return False
    try:
        parts = [len(os.fsencode(part)) for part in path.replace(os.sep, "/").split("/")]
    except UnicodeError:
        return False
    return max(parts) <= LONGEST_NAME and sum(parts) + len(parts) - 1 <= LONGEST_PATH
