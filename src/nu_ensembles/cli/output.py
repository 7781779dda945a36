"""What a command prints on standard output: one strict JSON object, or text for people."""

from __future__ import annotations

import json
import math
import os
import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from nu_ensembles.errors import InputError

# Columns that the last column of a table gets at least.
NARROWEST = 14


def show(result: Mapping[str, Any], text: str, as_json: bool) -> None:
    """Prints the result as JSON, or else the text that says the same.

    Raises:
      InputError: standard output takes nothing, and nowhere else does the result stand.
    """
    try:
        print(json.dumps(strict(result), allow_nan=False) if as_json else wrapped(text), flush=True)
    except BrokenPipeError:
        raise
    except OSError as error:
        # Without this, Python would try once more while closing the stream.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        said = f"Standard output cannot be written ({error.strerror})"
        if result.get("out") is None:
            raise InputError(f"{said}: send it somewhere with room.") from None
        print(f"nu-ensembles: {said}, but all is done: see {result['out']}", file=sys.stderr)


def strict(value: Any) -> Any:
    """The value in JSON's own types: NumPy's become plain ones, and nan and infinity, which JSON lacks, null."""
    if isinstance(value, Mapping):
        return {str(name): strict(each) for name, each in value.items()}
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [strict(each) for each in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Text in columns, two spaces apart; the last column goes on below itself where the terminal ends."""
    lines = [header, *rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(header) - 1)]
    before = sum(widths) + 2 * len(widths)
    # Where next to nothing is left for the last column, it may as well begin there.
    room = max(terminal_width() - before, NARROWEST)
    made = []
    for line in lines:
        first, *more = textwrap.wrap(line[-1], room) or [""]
        made.append("  ".join([*(c.ljust(w) for c, w in zip(line, widths, strict=False)), first]).rstrip())
        made += [" " * before + each for each in more]
    return "\n".join(made)


def terminal_width() -> int:
    """Columns of the terminal; 80 where there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def wrapped(text: str) -> str:
    """Sentences with line breaks where a terminal ends; as they are where nobody looks at one."""
    if not sys.stdout.isatty() and "COLUMNS" not in os.environ:
        return text
    # A table keeps its lines, which have two spaces between columns.
    width = terminal_width()
    # A path in two is none.
    wrapper = textwrap.TextWrapper(width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(line if "  " in line else wrapper.fill(line) for line in text.split("\n"))


def number(value: float, digits: int = 4) -> str:
    """A figure for a table; what does not exist is a dash."""
    return "–" if math.isnan(value) else f"{value:.{digits}f}"
