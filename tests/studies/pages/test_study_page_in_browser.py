"""A real browser opens a study's page: it sorts, fetches nothing, complains of nothing (needs chromium)."""

import shutil
import subprocess

import numpy as np
import pytest
from PIL import Image

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
    "--enable-logging=stderr",
)
# The second table holds the scores; its second column is the accuracy, which sorts as a number.
PROBE = """<script>
  const table = document.querySelectorAll("table")[2];
  table.querySelectorAll("thead button")[1].click();
  const shown = [...table.tBodies[0].rows].map((row) => Number(row.cells[1].dataset.sort));
  const sorted = shown.every((value, i) => i === 0 || shown[i - 1] <= value);
  const fetched = performance.getEntriesByType("resource").length;
  const fits = document.documentElement.scrollWidth <= window.innerWidth;
  document.title = `rows ${shown.length} sorted ${sorted} fetched ${fetched} fits ${fits}`;
</script></body>"""

pytestmark = [pytest.mark.slow, pytest.mark.skipif(BROWSER is None, reason="no chromium on this machine")]


def browse(path, tmp_path, *options: str) -> subprocess.CompletedProcess[str]:
    assert BROWSER is not None
    command = [BROWSER, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", *options, path.as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)


@pytest.mark.parametrize("width", [1280, 500])
def test_a_study_page_renders_sorts_and_fetches_nothing(small_study, tmp_path, width):
    probed = tmp_path / "probed.html"
    page = (small_study / "report.html").read_text(encoding="utf-8")
    probed.write_text(page.replace("</body>", PROBE), encoding="utf-8")
    done = browse(probed, tmp_path, f"--window-size={width},1400", "--dump-dom")
    assert "<title>rows 2 sorted true fetched 0 fits true</title>" in done.stdout
    assert "CONSOLE" not in done.stderr


def test_a_study_page_is_drawn_in_ink_and_colour(small_study, tmp_path):
    picture = tmp_path / "page.png"
    browse(small_study / "report.html", tmp_path, "--window-size=1280,3000", f"--screenshot={picture}")
    pixels = np.asarray(Image.open(picture).convert("RGB"), np.int32)
    assert (pixels.sum(axis=2) < 200).sum() > 5000, "there is text"
    assert (np.ptp(pixels, axis=2) > 80).sum() > 2000, "there are figures"
