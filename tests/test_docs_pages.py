"""The documentation holds: its examples run, its tables are those that the results give."""

from __future__ import annotations

import re
import sys
import types
from pathlib import Path

import pytest

from makers.command import MAKERS, main
from makers.files import GENERATED, ROOT, Maker

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INCLUDED = re.compile(r"^```\{include\} generated/(.*)$", re.MULTILINE)
SLOW_PAGES = ("estimator.md", "engine.md")


@pytest.mark.parametrize("page", ["../README.md", *(pytest.param(p, marks=pytest.mark.slow) for p in SLOW_PAGES)])
def test_the_examples_of_a_page_run_from_top_to_bottom(
    page: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    module = types.ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)  # dataclasses look their module up
    monkeypatch.chdir(tmp_path)
    blocks = list(BLOCK.finditer(text))
    assert blocks
    for block in blocks:
        # Blank lines before the block make a traceback point at the page's own line.
        line = text.count("\n", 0, block.start(1))
        exec(compile("\n" * line + block[1], page, "exec", dont_inherit=True), vars(module))


TEXTS = {path: text for maker in MAKERS.values() for path, text in maker.texts().items()}
# Pillow draws frost, and may round a line differently in another version; another test looks at its numbers.
DRAWN = ROOT / GENERATED / "corruption-frost.md"


@pytest.mark.parametrize("path", sorted(TEXTS.keys() - {DRAWN}), ids=lambda path: path.name)
def test_a_measured_text_is_the_one_that_the_results_give(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == TEXTS[path]()


def test_every_generated_file_has_one_maker_and_every_included_one_is_there() -> None:
    names = [path.name for maker in MAKERS.values() for path in maker.texts()]
    assert len(names) == len(set(names))
    generated = {path.name for path in (DOCS / "generated").iterdir()}
    assert generated == set(names) - {"README.md"}
    included = {name for page in DOCS.glob("*.md") for name in INCLUDED.findall(page.read_text(encoding="utf-8"))}
    assert included <= generated


def test_check_names_what_is_not_up_to_date_and_only_that(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check", "--only", "theory"]) == 0
    monkeypatch.setitem(MAKERS, "theory", Maker(others={"README.md": lambda: "another text"}))
    assert main(["--check", "--only", "theory"]) == 1
    assert capsys.readouterr().out == "README.md is not what the results give: run `make tables`.\n"


def test_what_trains_runs_only_when_it_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setitem(MAKERS, "theory", Maker(measure=lambda: done.append("measured")))
    assert main(["--only", "theory"]) == 0
    assert done == []
    assert main(["--measure", "theory"]) == 0
    assert done == ["measured"]
