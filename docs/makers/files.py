"""Where results and pages lie, and what a maker is."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
GENERATED, IMAGES = "docs/generated", "docs/images"
Content = Callable[[], str | bytes]


@dataclasses.dataclass(frozen=True)
class Maker:
    """What belongs together: parts of the documentation that come from the same results.

    Attributes:
      tables: file in docs/generated -> its text.
      pictures: file in docs/images -> its bytes, which other versions of the packages that draw may change.
      others: other files of the repository -> their text.
      measure: writes the maker's own results anew, and pictures of what it trained; None where something else does.
    """

    tables: Mapping[str, Callable[[], str]] = dataclasses.field(default_factory=dict)
    pictures: Mapping[str, Callable[[], bytes]] = dataclasses.field(default_factory=dict)
    others: Mapping[str, Callable[[], str]] = dataclasses.field(default_factory=dict)
    measure: Callable[[], None] | None = None

    def texts(self) -> dict[Path, Callable[[], str]]:
        """Every text by its path; these must be up to date."""
        generated = {ROOT / GENERATED / name: make for name, make in self.tables.items()}
        return generated | {ROOT / name: make for name, make in self.others.items()}

    def write(self) -> None:
        for path, text in self.texts().items():
            path.write_text(text(), encoding="utf-8")
        for name, picture in self.pictures.items():
            (ROOT / IMAGES / name).write_bytes(picture())

    def outdated(self) -> list[Path]:
        """The texts that are not what the results give."""
        return [
            path
            for path, text in self.texts().items()
            if not path.exists() or path.read_text(encoding="utf-8") != text()
        ]


def stored(name: str) -> Any:
    """A file of results."""
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def store(name: str, found: Mapping[str, Any]) -> None:
    """Writes a file of results."""
    text = json.dumps(found, indent=1, ensure_ascii=False) + "\n"
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a Markdown table."""
    body = (f"| {' | '.join(cells)} |" for cells in rows)
    return [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}", *body]


def with_numbers_to_the_right(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The same with all columns but the first set to the right."""
    lines = table(head, rows)
    return [lines[0], f"| --- | {' | '.join('---:' for _ in head[1:])} |", *lines[2:]]


def table_of(rows: Sequence[Mapping[str, Any]], number: Callable[[float], str]) -> str:
    """Rows of equal keys as a table; `number` writes floats."""

    def cell(value: object) -> str:
        return number(value) if isinstance(value, float) else f"{value:,}" if isinstance(value, int) else str(value)

    lines = table([name.replace("_", " ") for name in rows[0]], [list(map(cell, row.values())) for row in rows])
    return "\n".join(lines) + "\n"
