"""The page on corruptions holds: its example runs, its tables and its picture are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from makers import corruptions as page
from nu_ensembles.report.contact_sheet import sheet_pixels

DOCS = Path(__file__).parents[2] / "docs"


def test_the_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"^```python\n(.*?)^```$", (DOCS / "corruptions.md").read_text("utf-8"), re.M | re.S)
    exec(compile(block, "corruptions.md", "exec"), {})
    assert capsys.readouterr().out.startswith("snow 1 (8, 32, 32, 3)\n")


@pytest.mark.slow
def test_the_picture_of_frost_is_small_and_shows_the_colours_of_the_textures() -> None:
    file = DOCS / "images" / "frost.png"
    assert file.stat().st_size < 300_000
    with Image.open(file) as picture:
        drawn = np.asarray(picture.convert("RGB"))
    # In the mean, because Pillow may draw a line differently in another version.
    assert drawn.mean(axis=(0, 1)) == pytest.approx(page.frozen().mean(axis=(0, 1)), abs=3)


def test_the_table_of_frost_says_what_the_code_does() -> None:
    def numbers(text: str) -> list[float]:
        return [float(each) for each in re.findall(r"\d+\.\d+", text)]

    text = (DOCS / "generated" / "corruption-frost.md").read_text("utf-8")
    # Pillow draws the feathers, and may round a line differently in another version.
    assert numbers(text) == pytest.approx(numbers(page.frost()), rel=0.02)


def test_the_picture_is_small_and_shows_the_colours_of_the_sheet() -> None:
    file = DOCS / "images" / "corruptions.png"
    assert file.stat().st_size < 600_000
    images = np.load(page.GOLDEN / "clean.npz")["images"][list(page.SHOWN)]
    tiles = sheet_pixels(images)
    with Image.open(file) as picture:
        drawn = np.asarray(picture.convert("RGB"))
    # The tiles fill the right part of the picture: compare the mean colour of its lower right corner, the last tile.
    expected = tiles[-34:-2, -34:-2].mean(axis=(0, 1))
    size = int(drawn.shape[1] * 0.09)
    assert drawn[-size - 8 : -8, -size - 6 : -6].mean(axis=(0, 1)) == pytest.approx(expected, abs=12)
