"""Studies stand beside the library: it does not know them, and their rooms import one way only."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

SRC = Path(__file__).parents[2] / "src"
STUDIES = "nu_ensembles_studies"
# What a room may import of the others.
ROOMS = {
    "declare": set(),
    "shifts": set(),
    "results": {"declare"},
    "measure": {"declare", "results", "shifts"},
    "pages": {"declare", "results"},
    "experiments": {"declare", "results", "pages"},
    "demo": {"declare", "results", "measure", "pages", "shifts"},
    "registry": {"declare", "experiments"},
    "run": {"declare", "results", "measure", "pages", "registry"},
}


def imported(node: ast.AST) -> Iterator[str]:
    """Modules that a file imports when it is loaded: not those of its functions, or for types alone."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ImportFrom):
            yield from (f"{child.module}.{alias.name}" for alias in child.names)
        elif isinstance(child, ast.Import):
            yield from (alias.name for alias in child.names)
        elif not isinstance(child, ast.FunctionDef) and not for_types(child):
            yield from imported(child)


def for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


@functools.cache
def files(package: str) -> dict[str, ast.Module]:
    root = SRC / package
    return {path.relative_to(root).as_posix(): ast.parse(path.read_text("utf-8")) for path in root.rglob("*.py")}


def test_of_the_library_only_functions_of_the_command_line_import_studies() -> None:
    for name, tree in files("nu_ensembles").items():
        assert not any(module.startswith(STUDIES) for module in imported(tree)), name
        if not name.startswith("cli/"):
            assert STUDIES not in (SRC / "nu_ensembles" / name).read_text("utf-8"), name


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_rooms_before_it(room: str) -> None:
    for name, tree in files(STUDIES).items():
        if name.split("/")[0].removesuffix(".py") == room:
            used = {module.split(".")[1] for module in imported(tree) if module.startswith(STUDIES)}
            assert used - {room} <= ROOMS[room], name


def test_a_class_of_the_studies_has_a_name_that_no_other_class_has() -> None:
    names = {
        package: Counter(
            node.name for tree in files(package).values() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)
        )
        for package in ("nu_ensembles", STUDIES)
    }
    assert not {name for name, times in names[STUDIES].items() if times > 1 or name in names["nu_ensembles"]}


def test_no_file_of_the_studies_has_more_than_300_lines() -> None:
    assert all(len(path.read_text("utf-8").splitlines()) <= 300 for path in (SRC / STUDIES).rglob("*.py"))
