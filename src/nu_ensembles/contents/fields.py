"""What a field of a file may hold: checks that turn JSON's values into typed ones, or say where and what is wrong.

A seal says that a file is as it was written, not that it was written by us. So whatever comes from a file is parsed
into a frozen dataclass whose fields are declared with their checks:

    @dataclasses.dataclass(frozen=True, kw_only=True)
    class Index:
        step: int = stored(whole())
        sha256: str = stored(checksum)
        note: str | None = stored(optional(text()), absent=None)

    index = parsed(Index, storage.read_sealed_json(path, "The index"), f"The index {path}")

A check takes a value and where it stands (for the message) and returns the typed value. What belongs together is
compared in `__post_init__`, which raises an `InputError` with a sentence.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from nu_ensembles.errors import DamagedFileError, InputError

T = TypeVar("T")
Check = Callable[[Any, str], Any]
# Whole numbers up to here are the same in JSON, where others read them as doubles.
LARGEST = 2**53
LONGEST_TEXT, LONGEST_LIST, DEEPEST = 100_000, 10_000_000, 16
_CHECK, _ABSENT = "check", dataclasses.MISSING
_PLAIN_NAME = re.compile(r"[\w][\w.+ -]{0,199}")
_CHECKSUM = re.compile(r"[0-9a-f]{64}")


def stored(check: Check, absent: Any = _ABSENT) -> Any:
    """A field of a file.

    Args:
      check: what it may hold.
      absent: what an older file, which has no such field, means; without it the field must be there.
    """
    return dataclasses.field(metadata={_CHECK: check}, default=absent)


def parsed(kind: type[T], entry: Any, where: str) -> T:
    """The typed form of what a file holds; fields that the form does not know are left alone.

    Args:
      where: the file's role and path, to begin sentences with.

    Raises:
      DamagedFileError: a field is missing, or holds what it cannot hold.
    """
    if not isinstance(entry, Mapping):
        raise unfit(where, "an object with named fields", entry)
    values: dict[str, Any] = {}
    for field in dataclasses.fields(kind):  # pyright: ignore[reportArgumentType]
        if field.name in entry:
            values[field.name] = field.metadata[_CHECK](entry[field.name], f"{where}: {field.name!r}")
        elif field.default is _ABSENT:
            raise DamagedFileError(f"{where} lacks {field.name!r}: it was altered; restore it from a copy.")
    try:
        return kind(**values)
    except DamagedFileError:
        raise
    except InputError as error:
        raise DamagedFileError(f"{where}: {error}") from None


def unfit(where: str, wanted: str, value: Any) -> DamagedFileError:
    """The error for a value that a field cannot hold."""
    shown = (
        repr(value) if isinstance(value, str | int | float | None) and len(str(value)[:80]) < 80 else "something else"
    )
    return DamagedFileError(f"{where} should be {wanted}, not {shown}: it was altered; restore the file from a copy.")


def whole(least: int = 0, most: int = LARGEST) -> Check:
    """A whole number within limits."""

    def check(value: Any, where: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
            raise unfit(where, f"a whole number from {least} to {most}", value)
        return value

    return check


def number(above: float = -math.inf, finite: bool = True) -> Check:
    """A number above a limit; finite, unless scores may be infinite or missing."""

    def check(value: Any, where: str) -> float:
        if isinstance(value, bool) or not isinstance(value, int | float) or (finite and not _is_finite(value)):
            raise unfit(where, "a finite number" if finite else "a number", value)
        if not value > above and not (math.isnan(value) and not finite):
            raise unfit(where, f"a number above {above:g}", value)
        return value

    return check


def flag(value: Any, where: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise unfit(where, "true or false", value)
    return value


def text(longest: int = LONGEST_TEXT) -> Check:
    """Text."""

    def check(value: Any, where: str) -> str:
        if not isinstance(value, str) or len(value) > longest:
            raise unfit(where, f"text of at most {longest} letters", value)
        return value

    return check


def one_of(*known: Any) -> Check:
    """One of a few values."""

    def check(value: Any, where: str) -> Any:
        if not isinstance(value, str | int | float | bool | None) or value not in known:
            raise unfit(where, f"one of {', '.join(map(repr, known))}", value)
        return value

    return check


def optional(inner: Check) -> Check:
    """Nothing, or what another check takes."""
    return lambda value, where: None if value is None else inner(value, where)


def listing(inner: Check, least: int = 0, most: int = LONGEST_LIST) -> Check:
    """A list, as a tuple."""

    def check(value: Any, where: str) -> tuple[Any, ...]:
        if not isinstance(value, list | tuple) or not least <= len(value) <= most:
            raise unfit(where, f"a list of {least} to {most} entries", value)
        return tuple(inner(each, f"{where}[{at}]") for at, each in enumerate(value))

    return check


def mapping(inner: Check, known: Mapping[str, Check] | None = None) -> Check:
    """Named values: some names with a check of their own, all others with one and the same."""

    def check(value: Any, where: str) -> dict[str, Any]:
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise unfit(where, "an object with named fields", value)
        checks = known or {}
        return {name: checks.get(name, inner)(each, f"{where}[{name!r}]") for name, each in value.items()}

    return check


def form(kind: type[Any]) -> Check:
    """A dataclass of stored fields, within another."""
    return lambda value, where: parsed(kind, value, where)


def plain(value: Any, where: str) -> Any:
    """Any value of JSON, as deep as our files ever are: what is shown and not reckoned with."""
    return _plain(value, where, DEEPEST)


def file_name(value: Any, where: str) -> str:
    """The name of a file beside this one; no path that leads elsewhere."""
    if not isinstance(value, str) or not _PLAIN_NAME.fullmatch(value):
        raise unfit(where, "the name of a file in the same folder", value)
    return value


def checksum(value: Any, where: str) -> str:
    """A SHA-256 in hexadecimal."""
    if not isinstance(value, str) or not _CHECKSUM.fullmatch(value):
        raise unfit(where, "a SHA-256 in hexadecimal", value)
    return value


def _plain(value: Any, where: str, depth: int) -> Any:
    if depth == 0:
        raise unfit(where, f"nested less than {DEEPEST} deep", value)
    if isinstance(value, Mapping):
        return {name: _plain(each, where, depth - 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each, where, depth - 1) for each in value]
    return value


def _is_finite(value: float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond every double
        return False
