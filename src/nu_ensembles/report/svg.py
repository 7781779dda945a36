"""Matplotlib figures as SVG: the same bytes for the same figure, inline in a page or as a file.

Inline figures carry no fonts, dates or addresses, and take their ink from the page, so that they turn with it
from light to dark.
"""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING

from nu_ensembles.report.figures import ACCENT, BEFORE, INK, PALE, SOFT, WRONG

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What the page's style sheet may turn with its colour scheme; all other colours stay as drawn.
_PAGE_COLOURS = {
    "#000000": "currentColor",
    INK: "currentColor",
    ACCENT: "var(--accent)",
    SOFT: "var(--soft)",
    PALE: "var(--pale)",
    BEFORE: "var(--before)",
    WRONG: "var(--worse)",
}
_NO_METADATA = {"Date": None, "Creator": None, "Format": None, "Type": None}


def new_axes(width: float, height: float) -> Axes:
    """Axes of a new figure of so many inches, which belongs to nobody but the caller."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained").subplots()


def svg_bytes(drawn: Figure | Axes, *, text_as_paths: bool = True, transparent: bool = False) -> bytes:
    """A figure as a stand-alone SVG file; two calls for one figure give the same bytes.

    Args:
      drawn: a figure, or any axes of it.
      text_as_paths: letters as outlines, which look the same everywhere; otherwise as text in the viewer's font.
      transparent: no background.
    """
    import matplotlib

    buffer = io.BytesIO()
    # Element ids are random unless salted.
    with matplotlib.rc_context({"svg.hashsalt": "nu-ensembles", "svg.fonttype": "path" if text_as_paths else "none"}):
        _figure_of(drawn).savefig(buffer, format="svg", metadata=_NO_METADATA, transparent=transparent)
    return buffer.getvalue()


def png_bytes(drawn: Figure | Axes, dots_per_inch: int = 160) -> bytes:
    """A figure as a PNG file."""
    buffer = io.BytesIO()
    _figure_of(drawn).savefig(buffer, format="png", dpi=dots_per_inch, metadata={"Software": None})
    return buffer.getvalue()


def inline_svg(drawn: Figure | Axes, name: str, alt: str) -> str:
    """A figure as an `<svg>` element for a page.

    Args:
      drawn: a figure, or any axes of it.
      name: unique on the page; stands before every id, since matplotlib names the parts of all figures alike.
      alt: what a reader who does not see it should know.
    """
    text = svg_bytes(drawn, text_as_paths=False, transparent=True).decode()
    text = text[text.index("<svg") :]
    text = re.sub(r"\s*<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\s+xmlns(?::\w+)?="[^"]*"', "", text)
    text = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", text)
    text = re.sub(r"#[0-9a-fA-F]{6}\b", lambda found: _PAGE_COLOURS.get(found[0].lower(), found[0]), text)
    # Hundredths of a point are enough for coordinates, which make up most of the file; text between tags stays.
    text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\.\d\d)\d+", r"\1", tag[0]), text)
    box = re.search(r'viewBox="[^"]*"', text)
    assert box is not None, "matplotlib always writes a viewBox"
    head = f'<svg {box[0]} role="img" aria-label="{escape(alt)}">'
    return head + text[text.index(">") + 1 :].strip()


def _figure_of(drawn: Figure | Axes) -> Figure:
    from matplotlib.figure import Figure

    if isinstance(drawn, Figure):
        return drawn
    figure = drawn.get_figure(root=True)
    assert isinstance(figure, Figure), "axes that were drawn belong to a figure"
    return figure
