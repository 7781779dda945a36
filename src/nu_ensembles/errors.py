"""What the package raises when it cannot go on, or warns of: one sentence that says what to do.

The command line turns an `InputError` into exit code 2 and prints its sentence; nothing else is shown.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


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
    near = difflib.get_close_matches(str(name), names, n=1, cutoff=0.4)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    shown = " ".join(repr(name).split())
    shown = shown if len(shown) <= 200 else f"{shown[:197]}..."
    return InputError(f"Unknown {kind} {shown}.{hint} Known: {', '.join(names)}.")
