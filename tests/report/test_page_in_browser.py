"""A real browser opens a page at the width of a desktop and of a phone (needs chromium)."""

import shutil
import subprocess
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from PIL import Image

from nu_ensembles.report.heatmap import nll_heat_map
from nu_ensembles.report.page import Cell, Column, Gallery, Page, Paragraph, Picture, Section, SortableTable, write_page

BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")]


@pytest.fixture(scope="module")
def page_path(tmp_path_factory):
    nll = np.linspace(0.5, 2, 24).reshape(2, 12)
    grid: Any = SimpleNamespace(betas=np.array([0.0, 0.01]), steps=np.arange(1, 13), nll=nll, chosen=(0, 0))
    columns = [Column("Name", text=True), *(Column(f"Score {n}") for n in range(8))]
    rows = [
        [Cell(name), *(Cell(f"{value:.3f} ± 0.010", value) for _ in range(8))]
        for name, value in [("b", 0.2), ("a", 0.1)]
    ]
    blocks = [
        Paragraph("words " * 60),
        SortableTable("Scores", columns, rows),
        Gallery([Picture(nll_heat_map(grid), "c", "a")], wide=True),
    ]
    path = tmp_path_factory.mktemp("page") / "report.html"
    write_page(path, Page("A page", ["Read this."], [Section("One", blocks)]))
    return path


def browse(page_path, tmp_path, *options: str) -> str:
    assert BROWSER is not None
    command = [BROWSER, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", *options, page_path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout


@pytest.mark.parametrize("width", [1280, 500])
def test_a_page_is_drawn_in_ink_and_colour(page_path, tmp_path, width):
    picture = tmp_path / "page.png"
    browse(page_path, tmp_path, f"--window-size={width},1400", f"--screenshot={picture}")
    pixels = np.asarray(Image.open(picture).convert("RGB"), np.int32)
    assert pixels.shape == (1400, width, 3)
    assert (pixels.sum(axis=2) < 200).sum() > 500, "there is text"
    assert (np.ptp(pixels, axis=2) > 80).sum() > 5000, "there is a heat map"


def test_a_click_on_a_heading_sorts_the_table_and_the_page_is_no_wider_than_the_screen(page_path, tmp_path):
    probe = """<script>
      document.querySelector("thead button").click();
      const names = [...document.querySelectorAll("tbody th")].map((cell) => cell.textContent).join("");
      document.title = names + " " + (document.documentElement.scrollWidth <= window.innerWidth);
    </script></body>"""
    probed = tmp_path / "probed.html"
    probed.write_text(page_path.read_text(encoding="utf-8").replace("</body>", probe), encoding="utf-8")
    assert "<title>ab true</title>" in browse(probed, tmp_path, "--window-size=500,900", "--dump-dom")
