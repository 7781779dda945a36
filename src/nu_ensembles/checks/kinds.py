"""What an annotation says of an argument: a list of kinds, each of which takes a value for what it says, or does not.

    "int | None"          a whole number in any dress -> int, or None
    "Sequence[float]"     a list, tuple, range, set or column of numbers -> a tuple of them
    "ArrayLike"           an array, or lists of equal length -> a NumPy array

An annotation of which a part is not known here (`Any`, types of other packages) has no kinds, and takes everything.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from numbers import Real
from typing import Any, Literal, NamedTuple, get_origin

from nu_ensembles.checks.single import LARGEST, LONGEST_NAME, check_flag, is_path


class Misfit(Exception):  # noqa: N818 (never leaves this room)
    """A value is not of a kind."""


class Kind(NamedTuple):
    """A kind of arguments.

    take: the value as the function is to see it; anything that is raised says that it is not of this kind.
    words: what it is, after "must be".
    """

    take: Callable[[Any], Any]
    words: str


_MANY = re.compile(r"(?:Sequence|Iterable)\[(.+)\]|(tuple)\[(.+), \.\.\.\]", re.DOTALL)
_TUPLE = re.compile(r"tuple\[(.+)\]", re.DOTALL)
_MAPPING = re.compile(r"(?:Mapping|dict)\[(\w+), (.+)\]", re.DOTALL)
# Classes of this package that arguments may have to be, by name: what they are is known to rooms further down.
_OWN = {
    "Model": "a nu.Model (wrap your own module with nu.models.from_linen, from_nnx or from_equinox)",
    "Ensemble": "an nu.Ensemble",
    "Bound": "what theory.bound gives",
    "Calibrator": "a calibrator, such as nu.calibration.Temperature()",
    "BoundedLoss": "a theory.BoundedLoss",
    "SubGaussianLoss": "a theory.SubGaussianLoss",
    "Standardisation": "the scaling of an ensemble",
    "TableEncoding": "the encoding of an ensemble",
    "ModelSpec": "the spec of a network",
}


def kinds_of(annotation: Any, names: Mapping[str, Any]) -> list[Kind]:
    """What an annotation allows; nothing, if a part of it is not known here.

    Args:
      names: what the annotation's names stand for where it is written.
    """
    if not isinstance(annotation, str):
        return []
    parts = [part for each in _parts(annotation, "|") for part in _spelt_out(each, names)]
    if any(part in _PATHS for part in parts):  # any text is not a path
        parts = [part for part in parts if part != "str"]
    # None first: NumPy would make an array of it.
    found = [_kind(part, names) for part in sorted(parts, key=lambda part: part != "None")]
    return [each for each in found if each is not None] if None not in found else []


def taken(value: Any, kinds: Sequence[Kind]) -> Any:
    """The value as the first kind has it that takes it.

    Raises:
      Misfit: none does.
    """
    for kind in kinds:
        try:
            return kind.take(value)
        except MemoryError:
            raise
        except Exception:  # a value that cannot say what it is, is not of that kind
            continue
    raise Misfit


def in_words(kinds: Sequence[Kind]) -> str:
    """What an argument must be; None comes last."""
    return " or ".join(sorted(dict.fromkeys(kind.words for kind in kinds), key=lambda words: words == "None"))


def _parts(annotation: str, between: str) -> Iterator[str]:
    """The parts of `A | B[C | D]`, those within brackets left together."""
    depth = start = 0
    for at, letter in enumerate(annotation):
        depth += (letter == "[") - (letter == "]")
        if letter == between and depth == 0:
            yield annotation[start:at].strip()
            start = at + 1
    yield annotation[start:].strip()


def _spelt_out(part: str, names: Mapping[str, Any]) -> Iterator[str]:
    """A name for a choice of names is text: the function itself knows which."""
    named = names.get(part)
    yield "str" if part.startswith("Literal[") or get_origin(named) is Literal else part


def _kind(part: str, names: Mapping[str, Any]) -> Kind | None:
    if part in _KINDS:
        return _KINDS[part]
    if part in _OWN:
        return Kind(lambda value: _own(value, part), _OWN[part])
    if part.startswith("Callable["):
        return Kind(_function, "a function")
    if found := _MAPPING.fullmatch(part):
        return _mapping(found[1] == "str", kinds_of(found[2], names))
    if found := _MANY.fullmatch(part):
        of = kinds_of(found[1] or found[3], names)
        inner = in_words(of) if of else "values"
        return Kind(lambda value: _many(value, of, ordered=found[2] is not None), f"a list ({inner} each)")
    if found := _TUPLE.fullmatch(part):
        of = [kinds_of(each, names) for each in _parts(found[1], ",")]
        inner = ", ".join(in_words(each) if each else "anything" for each in of)
        how_many = "a pair of" if len(of) == 2 else str(len(of))
        return Kind(lambda value: _some(value, of), f"{how_many} values{f' ({inner})' if any(of) else ''}")
    return None


def _mapping(text_keys: bool, of: Sequence[Kind]) -> Kind:
    def take(value: Any) -> Mapping[Any, Any]:
        if not isinstance(value, Mapping) or (text_keys and not all(isinstance(key, str) for key in value)):
            raise Misfit
        return {key: taken(each, of) for key, each in value.items()} if of else value

    inner = f" ({in_words(of)} each)" if of else ""
    return Kind(take, f"a dict{' with text as keys' if text_keys else ''}{inner}")


def _many(value: Any, of: Sequence[Kind], ordered: bool) -> Any:
    """A list, tuple, range, column or set as a tuple of what its entries say.

    Of entries of any kind the list itself is handed on. A set has no order: where that counts it is refused, elsewhere
    its entries come sorted.
    """
    import numpy as np

    is_set = isinstance(value, set | frozenset)
    n_axes = getattr(value, "ndim", 1 if isinstance(value, Sequence | Set) else 0)
    if isinstance(value, str | bytes | bytearray | memoryview) or n_axes < 1 or (is_set and ordered):
        raise Misfit
    if n_axes > 1 and not any(kind is _ARRAY for kind in of) and of:
        raise Misfit
    if n_axes > 1 and isinstance(value, np.ndarray):
        return value  # arrays one after the other, as it is
    entries = sorted(value) if is_set else value
    return tuple(taken(each, of) for each in entries) if of else entries


def _some(value: Any, of: Sequence[Sequence[Kind]]) -> tuple[Any, ...]:
    """As many values as a tuple of a fixed length has."""
    if isinstance(value, str | bytes | set | frozenset | Mapping) or len(value) != len(of):
        raise Misfit
    return tuple(taken(each, kinds) if kinds else each for each, kinds in zip(value, of, strict=True))


def _own(value: Any, name: str) -> Any:
    if not any(each.__name__ == name for each in type(value).__mro__):
        raise Misfit
    return value


def _none(value: Any) -> None:
    if value is not None:
        raise Misfit


def _whole(value: Any) -> int:
    if getattr(value, "shape", ()):
        raise Misfit
    # Who counts tells True from 1.
    number = value if isinstance(value, bool) else operator.index(value)
    if abs(number) > LARGEST:
        raise Misfit
    return number


def _number(value: Any) -> Any:
    if isinstance(value, int | float):
        float(value)  # not more than floating point holds
        return value
    # Arrays without an axis are numbers, too.
    if not isinstance(value, Real) and not (value.shape == () and value.dtype.kind in "iuf"):
        raise Misfit
    return float(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise Misfit
    return value


def _flag(value: Any) -> bool:
    return check_flag(value, "it")


def _path(value: Any) -> Any:
    if not is_path(value):
        raise Misfit
    return value


def _function(value: Any) -> Any:
    if not callable(value):
        raise Misfit
    return value


def _array(value: Any) -> Any:
    import numpy as np

    if np.ma.is_masked(value):
        raise Misfit
    array = np.asarray(value)
    if array.dtype.kind == "O":
        for each in array.ravel().tolist():
            hash(each)  # a label, at least
            if (isinstance(each, int) and abs(each) > LARGEST) or callable(each):
                raise Misfit
    return array


_PATH = Kind(_path, f"a path (of names of at most {LONGEST_NAME} bytes)")
_ARRAY = Kind(_array, "an array without masked values, or lists of equal length")
_PATHS = ("Path", "PathLike", "os.PathLike[str]")
_KINDS: dict[str, Kind] = {
    "None": Kind(_none, "None"),
    "int": Kind(_whole, "a whole number"),
    "float": Kind(_number, "a number"),
    "str": Kind(_text, "text"),
    "bool": Kind(_flag, "True or False"),
    **dict.fromkeys(("ArrayLike", "np.ndarray"), _ARRAY),
    **dict.fromkeys(_PATHS, _PATH),
}
