"""The gallery's pictures: the last one that each notebook draws.

`python docs/make_tables.py --measure gallery` runs all notebooks, a minute on two cores.
"""

from __future__ import annotations

import ast
import contextlib
import re
import sys
import tempfile
import types
import warnings
from pathlib import Path
from typing import Any

from makers.files import IMAGES, ROOT, Maker

CELL = re.compile(r"^```{code-cell}[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def pictures_of(page: Path) -> list[Any]:
    """The figures that a notebook shows, in their order; its cells run in the current folder."""
    module = types.ModuleType("notebook")
    sys.modules["notebook"] = module  # where classes look for the module that they stand in
    found = []
    for cell in CELL.findall(page.read_text(encoding="utf-8")):
        tree = ast.parse(cell)
        shown = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, page.name, "exec", dont_inherit=True), vars(module))
        if shown is not None:
            found.append(eval(compile(ast.Expression(shown.value), page.name, "eval"), vars(module)))
    return [each for each in found if hasattr(each, "savefig")]


def measure() -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    # The same bytes each time.
    mpl.rcParams["svg.hashsalt"] = "nu-ensembles"
    for page in sorted((ROOT / "docs" / "gallery").glob("*.md")):
        if page.stem == "index":
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pictures = pictures_of(page)
        pictures[-1].savefig(ROOT / IMAGES / f"gallery-{page.stem}.svg", metadata={"Date": None}, bbox_inches="tight")


MAKER = Maker(measure=measure)
