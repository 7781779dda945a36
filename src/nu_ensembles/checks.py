"""Checks of single arguments, each with the sentence that says what would do."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import operator
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from nu_ensembles.errors import InputError, unknown_name

if TYPE_CHECKING:
    import numpy as np

P = ParamSpec("P")
R = TypeVar("R")
_OF_VALUES = re.compile(r"(?:Sequence|Iterable)\[(.+)\]|tuple\[(.+), \.\.\.\]")
# Classes of this package that arguments may have to be, by name: what they are is known to rooms further down.
_OWN = {
    "Model": "a nu.Model (wrap your own module with nu.models.from_linen, from_nnx or from_equinox)",
    "Ensemble": "an nu.Ensemble",
    "Bound": "what theory.bound gives",
}
_OWN |= {"Calibrator": "a calibrator, such as nu.calibration.Temperature()"}
_OWN |= {"BoundedLoss": "a theory.BoundedLoss", "SubGaussianLoss": "a theory.SubGaussianLoss"}
_OWN |= {"Standardisation": "the scaling of an ensemble", "TableEncoding": "the encoding of an ensemble"}
# Bytes of a name in a folder, and of a whole path: file systems take no longer ones.
LONGEST_NAME, LONGEST_PATH = 255, 4095
Kind = tuple[Callable[[Any], bool], str]


def shown(value: Any) -> str:
    """A value in a sentence: one line, not too long."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def check_whole(value: Any, name: str, least: int = 1, most: int | None = None) -> int:
    """A whole number of at least `least`, and of at most `most`."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise InputError(f"{name} must be a whole number of at least {least}, not {shown(value)}.")
    if most is not None and number > most:
        raise InputError(f"{name} must be at most {most}, not {shown(value)}.")
    return number


def check_positive(value: Any, name: str, zero_allowed: bool = False, below: float = math.inf) -> float:
    """A finite number above (or, if allowed, at) zero, and below a limit."""
    # NumPy's numbers count themselves among the real ones.
    number = float(value) if isinstance(value, Real) else math.nan
    if not math.isfinite(number) or number < 0 or (number == 0 and not zero_allowed) or number >= below:
        least = "number of at least" if zero_allowed else "number above"
        limit = "" if below == math.inf else f" and below {below:g}"
        raise InputError(f"{name} must be a {least} 0{limit}, not {shown(value)}.")
    return number


def check_flag(value: Any, name: str) -> bool:
    """True or False, also as NumPy has them, or as 1 and 0."""
    import numpy as np

    if isinstance(value, bool | np.bool_ | int | np.integer) and value in (0, 1):
        return bool(value)
    raise InputError(f"{name} must be True or False, not {shown(value)}.")


def check_flags(values: Mapping[str, Any], owner: type) -> None:
    """Refuses, of the arguments of a class, those that are neither true nor false although their default is."""
    for name, how in inspect.signature(owner).parameters.items():
        if isinstance(how.default, bool) and name in values:
            check_flag(values[name], name)


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
        return np.asarray(value)
    except (TypeError, ValueError):
        raise InputError(f"{name} cannot be taken as an array: give one whose rows are equally long.") from None


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
    if isinstance(value, str) or (isinstance(value, Real) and not (0 <= float(value) < below)):
        limit = "" if below == math.inf else f" and below {below:g}"
        raise InputError(f"{name} must be a number of at least 0{limit}, not {value}; {advice}.")


# Arguments against a signature


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Refuses arguments of another type than the function's annotations say, before it sees them.

    Annotations that are not known here (`Any`, types of other packages) take everything.
    """
    signature = inspect.signature(function)
    wanted = {name: kinds for name, how in signature.parameters.items() if (kinds := _kinds(how.annotation))}

    @functools.wraps(function)
    def with_checks(*args: P.args, **kwargs: P.kwargs) -> R:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if name in wanted and not any(fits(value) for fits, _ in wanted[name]):
                words = " or ".join(dict.fromkeys(words for _, words in wanted[name]))
                raise InputError(f"{name} must be {words}, not {shown(value)}.")
        return function(*args, **kwargs)

    return with_checks


def _kinds(annotation: Any) -> list[Kind]:
    """What an annotation allows; nothing, if a part of it is not known here."""
    if not isinstance(annotation, str):
        return []
    found = [_kind(each) for each in _alternatives(annotation)]
    if _PATH in found:  # any text is not a path
        found = [each for each in found if each != _KINDS["str"]]
    return [each for each in found if each is not None] if None not in found else []


def _alternatives(annotation: str) -> Iterator[str]:
    """The parts of `A | B[C | D]`, those within brackets left together."""
    depth = start = 0
    for at, letter in enumerate(annotation):
        depth += (letter == "[") - (letter == "]")
        if letter == "|" and depth == 0:
            yield annotation[start:at].strip()
            start = at + 1
    yield annotation[start:].strip()


def _kind(name: str) -> Kind | None:
    if name in _KINDS:
        return _KINDS[name]
    if name in _OWN:
        return lambda value: any(each.__name__ == name for each in type(value).__mro__), _OWN[name]
    if name.startswith(("Mapping[str,", "dict[str,")):
        return _has_names, "a dict with text as keys"
    if name.startswith(("Mapping[", "dict[")):
        return lambda value: isinstance(value, Mapping), "a dict"
    if name.startswith("Literal["):
        return lambda value: isinstance(value, str), f"one of {name[8:-1]}"
    if name.startswith("Callable["):
        return callable, "a function"
    found = _OF_VALUES.fullmatch(name)
    if found is None:
        return None
    of = _kinds(found[1] or found[2])
    inner = " or ".join(words for _, words in of) if of else "values"
    return lambda value: _is_list(value, of), f"a list ({inner} each)"


def _is_list(value: Any, of: Sequence[Kind]) -> bool:
    import numpy as np

    if isinstance(value, str | bytes) or not (
        isinstance(value, Sequence | set | frozenset) or (isinstance(value, np.ndarray) and value.ndim > 0)
    ):
        return False
    return not of or all(any(fits(each) for fits, _ in of) for each in value)


def _is_whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return not getattr(value, "shape", ())


def _is_number(value: Any) -> bool:
    # Arrays without an axis are numbers, too.
    return isinstance(value, Real) or (getattr(value, "shape", None) == () and value.dtype.kind in "iuf")


def _is_flag(value: Any) -> bool:
    import numpy as np

    return isinstance(value, bool | np.bool_ | int | np.integer) and value in (0, 1)


def _has_names(value: Any) -> bool:
    return isinstance(value, Mapping) and all(isinstance(key, str) for key in value)


def is_path(value: Any) -> bool:
    """Whether a file could be there: text or a path, no longer than file systems have them."""
    if not isinstance(value, str | os.PathLike) or not isinstance(path := os.fspath(value), str) or "\0" in path:
        return False
    try:
        parts = [len(os.fsencode(part)) for part in path.replace(os.sep, "/").split("/")]
    except UnicodeError:
        return False
    return max(parts) <= LONGEST_NAME and sum(parts) + len(parts) - 1 <= LONGEST_PATH


def _is_array(value: Any) -> bool:
    import numpy as np

    try:
        np.asarray(value)
    except (TypeError, ValueError):
        return False
    return True


_PATH = (is_path, f"a path (of names of at most {LONGEST_NAME} bytes)")
_KINDS: dict[str, Kind] = {
    "None": (lambda value: value is None, "None"),
    "int": (_is_whole, "a whole number"),
    "float": (_is_number, "a number"),
    "str": (lambda value: isinstance(value, str), "text"),
    "bool": (_is_flag, "True or False"),
    "ArrayLike": (_is_array, "an array, or lists of equal length"),
    "np.ndarray": (_is_array, "an array, or lists of equal length"),
    **dict.fromkeys(("Path", "PathLike", "os.PathLike[str]"), _PATH),
}
