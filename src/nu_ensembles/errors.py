"""What the package raises when it cannot go on, or warns of: one sentence that says what to do.

The command line turns an `InputError` into exit code 2 and prints its sentence; nothing else is shown.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable
from typing import Any

# Of what is quoted, so many letters are shown, and not many more are written out.
_MOST_SHOWN, _MOST_NAME = 80, 200
_SHORT = reprlib.Repr()
_SHORT.maxlist = _SHORT.maxtuple = _SHORT.maxset = _SHORT.maxfrozenset = _SHORT.maxdict = _MOST_SHOWN
_SHORT.maxstring = _SHORT.maxlong = _SHORT.maxother = 2 * _MOST_NAME


class InputError(ValueError):
    """The caller's data, option or file cannot be used as it is.

    Whatever it quotes (an array, a name with a line break), its sentence is one line.
    """

    def __init__(self, message: object = "") -> None:
        super().__init__(" ".join(part.strip() for part in str(message).splitlines()))


class DamagedFileError(InputError):
    """A file that this package wrote, or one the user brought, is truncated, altered or unreadable."""


class NonFiniteLossError(ArithmeticError):
    """A member's loss or gradient stopped being a number; its last good parameters were kept."""


class IdleMembersWarning(UserWarning):
    """Some members learnt nothing, while the others did."""


class DataWarning(UserWarning):
    """Something was decided about the data that their owner may want to know: columns left out, rows without label."""


class MissingExtraError(ImportError):
    """An optional dependency is needed and absent."""

    def __init__(self, job: str, extra: str) -> None:
        super().__init__(f"{job} needs an optional package: pip install 'nu-ensembles[{extra}]'.")


def unknown_name(kind: str, name: object, known: Iterable[str]) -> InputError:
    """The error for a name that is not in a list, with the nearest one that is."""
    names = sorted(known)
    near = difflib.get_close_matches(
        name[:_MOST_NAME] if isinstance(name, str) else shown(name), names, n=1, cutoff=0.4
    )
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return InputError(f"Unknown {kind} {shown(name, _MOST_NAME)}.{hint} Known: {', '.join(names)}.")


def shown(value: Any, most: int = _MOST_SHOWN) -> str:
    """A value in a sentence: one line, not too long, whatever it is."""
    try:
        text = " ".join(_SHORT.repr(value).split())
    except Exception:  # what cannot even be written out
        text = f"a {type(value).__name__}"
    return text if len(text) <= most else f"{text[: most - 3]}..."
