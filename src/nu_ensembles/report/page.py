"""One self-contained HTML page: sentences, sortable tables, inline figures, and how it was run.

Nothing is fetched when it is opened: style, script and figures stand in the file, and a content policy forbids
the rest. Text is escaped; only figures, which this package draws, are put in as they are.
"""

from __future__ import annotations

import base64
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nu_ensembles import storage
from nu_ensembles.report.svg import inline_svg

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as MatplotlibFigure

# Pages with more sections than this have a list of them.
FEW_SECTIONS = 3
_ENVIRONMENT = {
    "nu_ensembles": "nu-ensembles",
    "python": "Python",
    "system": "System",
    "backend": "Backend",
    "device": "Device",
    "n_devices": "Number of devices",
}


@dataclasses.dataclass(frozen=True)
class Column:
    """A column's heading; `meaning` is shown below the table. Text columns are set to the left."""

    title: str
    meaning: str = ""
    text: bool = False


@dataclasses.dataclass(frozen=True)
class Cell:
    """What a cell shows and what it is sorted by.

    Attributes:
      mark: "", "better", "worse" or "reference".
      shade: how dark its ground is, 0 … 1, in the colour of what is reported on; None for the page's own.
      image: the bytes of a PNG file, shown in the place of the text, which tells what it is.
    """

    text: str
    value: float | str | None = None
    mark: str = ""
    shade: float | None = None
    image: bytes | None = None

    @property
    def sort_by(self) -> str:
        return str(self.text if self.value is None else self.value)

    @property
    def source(self) -> str:
        """The image as an address that holds it."""
        return "" if self.image is None else f"data:image/png;base64,{base64.b64encode(self.image).decode()}"


@dataclasses.dataclass(frozen=True)
class SortableTable:
    """A sortable table; the first cell of a row is its heading."""

    caption: str
    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    note: str = ""
    kind: str = dataclasses.field(default="table", init=False)


@dataclasses.dataclass(frozen=True)
class Picture:
    """A matplotlib figure (or any axes of it), its caption, and what to tell those who cannot see it."""

    drawn: MatplotlibFigure | Axes
    caption: str
    alt: str


@dataclasses.dataclass(frozen=True)
class Gallery:
    """Figures side by side where there is room.

    Attributes:
      title: above them.
      folded: hide them until the reader opens the title.
      wide: they need 30 rem to be legible and scroll on narrow screens.
    """

    pictures: Sequence[Picture]
    title: str = ""
    folded: bool = False
    wide: bool = False
    kind: str = dataclasses.field(default="gallery", init=False)


@dataclasses.dataclass(frozen=True)
class Tile:
    """A number to look at first: its name, the number, and its interval or what it means."""

    name: str
    number: str
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Card:
    """What came out, set apart: a few numbers, and sentences."""

    tiles: Sequence[Tile]
    sentences: Sequence[str] = ()
    kind: str = dataclasses.field(default="card", init=False)


@dataclasses.dataclass(frozen=True)
class Paragraph:
    """Plain text."""

    text: str
    kind: str = dataclasses.field(default="paragraph", init=False)


Block = Paragraph | SortableTable | Gallery | Card


@dataclasses.dataclass(frozen=True)
class Section:
    """A heading with what stands under it."""

    title: str
    blocks: Sequence[Block]


@dataclasses.dataclass(frozen=True)
class HowItWasRun:
    """What another person needs to run it again.

    Attributes:
      command: to type.
      seeds: of the runs.
      seconds: wall-clock time.
      environment: from `runs.environment()`.
      settings: name -> value, what was trained and how.
    """

    command: str
    seeds: Sequence[int]
    seconds: float
    environment: Mapping[str, Any]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    def facts(self) -> list[tuple[str, str]]:
        """Name and value of each line, in order."""
        environment = dict(self.environment)
        versions = environment.pop("versions", {})
        facts = [
            ("Command", self.command),
            ("Seeds", ", ".join(map(str, self.seeds))),
            ("Time", duration(self.seconds)),
            *((name, str(value)) for name, value in self.settings.items()),
            *((_ENVIRONMENT.get(name, name), str(value)) for name, value in environment.items()),
        ]
        if versions:
            facts.append(("Packages", ", ".join(f"{name} {version}" for name, version in versions.items())))
        return facts


@dataclasses.dataclass(frozen=True)
class Page:
    """A report: its title, the sentences to read if one reads nothing else, the evidence, how it was run.

    A page of several sections has a list of them at its beginning.
    """

    title: str
    lead: Sequence[str]
    sections: Sequence[Section]
    run: HowItWasRun | None = None
    card: Card | None = None

    @property
    def contents(self) -> list[str]:
        """Titles of the sections; none where there are few."""
        titles = [section.title for section in self.sections] + (["How it was run"] if self.run else [])
        return titles if len(titles) > FEW_SECTIONS else []


def write_page(path: str | Path, page: Page) -> None:
    """Writes the page in one step: readers see the old file or the new one."""
    storage.write_bytes(path, render_page(page).encode())


def render_page(page: Page) -> str:
    """The page as HTML text; the same page gives the same text."""
    from markupsafe import Markup

    numbers = iter(range(1, 1_000_000))

    def svg(picture: Picture) -> Markup:
        return Markup(inline_svg(picture.drawn, f"figure{next(numbers)}", picture.alt))

    return _environment().get_template("page.html.j2").render(page=page, svg=svg)


def duration(seconds: float) -> str:
    """ "42 s", "3 min 5 s", "2 h 10 min"."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


@functools.cache
def _environment() -> Environment:
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("nu_ensembles.report"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["tidy"] = _without_breaks
    return environment


def _without_breaks(text: str) -> str:
    """Keeps "0.4 % ± 0.9" and "β = 0.01" on one line."""
    for together in (" %", " ± ", "β = "):
        text = text.replace(together, together.replace(" ", "\N{NO-BREAK SPACE}"))
    return text
