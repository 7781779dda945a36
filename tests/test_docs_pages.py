"""The documentation holds: its examples run, its tables are those that the results give."""

from __future__ import annotations

import importlib.util
import re
import sys
import types
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[1] / "docs"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
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


def maker(name: str) -> types.ModuleType:
    """One of the scripts that write the documentation's tables."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


MAKERS = ("make_tables", "make_study_tables", "make_commits")
TABLES = {name: table for script in MAKERS for name, table in maker(script).TABLES.items()}


@pytest.mark.parametrize("name", sorted(TABLES))
def test_a_measured_table_is_the_one_that_the_results_give(name: str) -> None:
    assert (DOCS / "generated" / name).read_text(encoding="utf-8") == TABLES[name]()


def test_the_readme_shows_the_results_of_the_demo() -> None:
    assert (DOCS.parent / "README.md").read_text(encoding="utf-8") == maker("make_tables").readme()
