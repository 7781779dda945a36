"""The pages that a new user reads hold: links lead somewhere, notebooks run, the quickstart does what it says."""

from __future__ import annotations

import re
import runpy
import shlex
import sys
import types
from pathlib import Path

import pytest

from nu_ensembles.cli import main

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if "_build" not in page.parts)
NOTEBOOKS = sorted(page for page in (DOCS / "gallery").glob("*.md") if page.stem != "index")
LINK = re.compile(r"\]\((?!https?:|#|mailto:)([^)#\s]+)")
CODE = re.compile(r"^```.*?^```$|`[^`\n]*`", re.MULTILINE | re.DOTALL)
CELL = re.compile(r"^```\{code-cell\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PYTHON = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHELL = re.compile(r"^```bash\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", [*PAGES, ROOT / "README.md"], ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_to_a_file_leads_to_one(page: Path) -> None:
    text = CODE.sub("", page.read_text(encoding="utf-8"))
    broken = [link for link in LINK.findall(text) if not (page.parent / link).exists()]
    assert not broken


def test_every_page_can_be_reached_from_the_home_page() -> None:
    entry = re.compile(r"^```\{toctree\}\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    reached, waiting = set(), [DOCS / "index.md"]
    while waiting:
        page = waiting.pop()
        reached.add(page)
        for block in entry.findall(page.read_text(encoding="utf-8")):
            names = [line for line in block.splitlines() if line and not line.startswith(":")]
            waiting += [page.parent / f"{name}.md" for name in names]
    assert {page for page in PAGES if "generated" not in page.parts} <= reached


@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_is_python_and_stands_in_the_gallery(page: Path) -> None:
    cells = CELL.findall(page.read_text(encoding="utf-8"))
    assert cells
    for cell in cells:
        compile(cell, page.name, "exec", dont_inherit=True)
    assert f"({page.name})" in (DOCS / "gallery" / "index.md").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("page", NOTEBOOKS, ids=lambda page: page.stem)
def test_a_notebook_runs_from_top_to_bottom(page: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    module = types.ModuleType("notebook")
    monkeypatch.setitem(sys.modules, "notebook", module)
    for cell in CELL.findall(page.read_text(encoding="utf-8")):
        exec(compile(cell, page.name, "exec", dont_inherit=True), vars(module))


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_quickstart_goes_from_a_csv_to_a_decision(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "customers.py"))
    text = (DOCS / "quickstart.md").read_text(encoding="utf-8")
    commands = [line for block in SHELL.findall(text) for line in block.splitlines() if line.startswith("nu-ensembles")]
    assert len(commands) == 6
    for command in commands:
        assert main(shlex.split(command)[1:]) == 0, command
    for name in ("test-report.html", "more-report.html", "decisions.csv"):
        assert Path(name).is_file()
    module = types.ModuleType("page")
    for block in PYTHON.findall(text):
        exec(compile(block, "quickstart.md", "exec", dont_inherit=True), vars(module))
    assert "of 10000 customers get an offer" in capsys.readouterr().out
    assert Path("page.html").is_file()
