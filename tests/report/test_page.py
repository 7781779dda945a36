"""A page stands alone, escapes what it is given, shows every value, and is the same text each time."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from matplotlib.figure import Figure

from nu_ensembles.report.page import (
    Cell,
    Column,
    Gallery,
    HowItWasRun,
    Page,
    Paragraph,
    Picture,
    Section,
    SortableTable,
    duration,
    render_page,
    write_page,
)

VOID = {"meta", "br", "img", "link", "input", "hr"}


def drawn(title: str = "0.0001 is kept") -> Figure:
    figure = Figure(figsize=(3, 2))
    axes = figure.subplots()
    axes.plot([0, 1], [0.123456789, 1.0], color="#1f5fa8")
    axes.set_title(title)
    return figure


def page(text: str = "plain text") -> Page:
    table = SortableTable(
        "A caption",
        [Column("Name", text=True), Column("Score", "What it means.")],
        [[Cell("first"), Cell("0.512 ± 0.020", 0.512, "better")], [Cell(text), Cell("–", "–")]],
        note="A note.",
    )
    pictures = [Picture(drawn(), "Caption one", "Alt text one"), Picture(drawn(), "Caption two", 'Alt "two"')]
    sections = [
        Section("Evidence", [Paragraph(text), table, Gallery(pictures, title="Figures", folded=True)]),
    ]
    environment = {"python": "3.11.7", "versions": {"numpy": "2.4.0"}}
    return Page("A title", [text], sections, HowItWasRun("tool --run", (0, 1), 3725.0, environment))


class Reader(HTMLParser):
    """Collects ids and checks that every element that opens also closes, in order."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.ids, self.tags, self.attributes = [], [], [], []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.attributes += attrs
        self.ids += [value for name, value in attrs if name == "id"]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_a_page_refers_to_nothing_outside_itself():
    text = render_page(page())
    assert not re.search(r"https?:|//[a-z]|@import|@font-face", text)
    reader = Reader(text)
    assert not {"link", "iframe", "object", "embed", "base"} & set(reader.tags)
    fetching = [value for name, value in reader.attributes if name in ("src", "href", "xlink:href", "action")]
    assert all(value.startswith("#") for value in fetching)
    assert "default-src 'none'" in text


def test_every_element_closes_and_no_id_occurs_twice():
    reader = Reader(render_page(page()))
    assert reader.open == []
    assert len(reader.ids) == len(set(reader.ids))
    references = [value[1:] for name, value in reader.attributes if name == "xlink:href"]
    assert references
    assert set(references) <= set(reader.ids)


def test_text_is_escaped_wherever_it_stands():
    text = render_page(page("<script>alert(1)</script> & <b>"))
    assert text.count("<script>") == 1  # the page's own
    assert text.count("&lt;script&gt;alert(1)&lt;/script&gt; &amp; &lt;b&gt;") >= 3
    assert "<b>" not in text


def test_values_captions_notes_and_alternative_texts_are_all_there():
    text = render_page(page()).replace("\N{NO-BREAK SPACE}", " ")
    for expected in (
        ">0.512 ± 0.020</td>",
        'data-sort="0.512" class="better"',
        "A caption",
        "What it means.",
        "A note.",
        "Caption one",
        'aria-label="Alt text one"',
        'aria-label="Alt &quot;two&quot;"',
        "<code>tool --run</code>",
        "1 h 2 min",
        "numpy 2.4.0",
        "<summary>Figures</summary>",
    ):
        assert expected in text


def test_figures_keep_their_text_and_take_their_ink_from_the_page():
    text = render_page(page())
    assert "0.0001 is kept" in text
    assert "var(--accent)" in text
    assert "#1f5fa8" not in text.split("<body>")[1]
    assert "0.123456" not in text


def test_the_same_page_is_the_same_text():
    assert render_page(page()) == render_page(page())


def test_a_page_is_written_whole_and_replaces_an_older_one(tmp_path):
    path = tmp_path / "report.html"
    path.write_text("old")
    write_page(path, page())
    assert path.read_text(encoding="utf-8") == render_page(page())
    assert [each.name for each in tmp_path.iterdir()] == ["report.html"]


def test_a_page_without_sections_or_figures_is_a_page():
    text = render_page(Page("Only a title", [], []))
    assert "<h1>Only a title</h1>" in text
    assert "How it was run" not in text


@pytest.mark.parametrize(("seconds", "expected"), [(42.4, "42 s"), (185, "3 min 5 s"), (7800, "2 h 10 min")])
def test_durations_are_written_for_people(seconds, expected):
    assert duration(seconds) == expected


def test_numpy_values_sort_as_numbers():
    assert Cell("one half", np.float64(0.5)).sort_by == "0.5"
