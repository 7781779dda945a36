"""Walls: what may import what is one table in docs/architecture.md, and the source keeps to it."""

from __future__ import annotations

import ast
import functools
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]
SOURCE = PROJECT / "src"
PAGE = PROJECT / "docs" / "architecture.md"
STUDIES = "nu_ensembles_studies"
# The package's own __init__ names what is public; it imports when it is asked.
PUBLIC = "nu_ensembles"


def table() -> dict[str, set[str]]:
    """room -> rooms that it may import, as the page has it."""
    rows = re.findall(r"^\| `([\w.]+?)/?` \|[^|]*\| ([^|]*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {room: set(re.findall(r"`(\w+)`", allowed)) for room, allowed in rows}


def room_of(module: str) -> str | None:
    first, *rest = module.split(".")
    if first == STUDIES:
        return STUDIES
    if first != PUBLIC:
        return None
    return rest[0] if rest else PUBLIC


@functools.cache
def modules() -> Iterable[tuple[str, ast.Module]]:
    return [
        (".".join(file.relative_to(SOURCE).with_suffix("").parts), ast.parse(file.read_text(encoding="utf-8")))
        for file in SOURCE.rglob("*.py")
    ]


def imported_by(tree: ast.Module) -> Iterator[str]:
    """Modules that are imported anywhere in a file, also within functions."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            if node.module != PUBLIC:
                yield node.module
                continue
            for alias in node.names:  # a room, or a public name
                place = SOURCE / PUBLIC / alias.name
                yield f"{PUBLIC}.{alias.name}" if place.is_dir() or place.with_suffix(".py").exists() else PUBLIC


@pytest.fixture(scope="module")
def imports() -> dict[str, dict[str, list[str]]]:
    """room -> room that it imports -> modules that do."""
    found: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, tree in modules():
        room = room_of(name.removesuffix(".__init__"))
        assert room is not None
        for module in imported_by(tree):
            other = room_of(module)
            if other is not None and other != room:
                found[room][other].append(name)
    return found


def test_every_room_stands_in_the_table(imports) -> None:
    rooms = {room_of(name.removesuffix(".__init__")) for name, _ in modules()} - {PUBLIC, "_version"}
    assert rooms == table().keys()


def test_rooms_import_only_what_the_table_allows(imports) -> None:
    allowed = table()
    broken = {
        f"{room} -> {other}": names
        for room, others in imports.items()
        for other, names in others.items()
        if room != PUBLIC
        and other != "_version"
        and other not in allowed[room]
        # `import nu_ensembles as nu` is for those who use the package from outside its rooms.
        and not (other == PUBLIC and room in ("cli", STUDIES))
    }
    assert broken == {}


def test_what_the_table_allows_is_used(imports) -> None:
    idle = {room: sorted(allowed - imports[room].keys()) for room, allowed in table().items()}
    assert {room: unused for room, unused in idle.items() if unused} == {}


def test_no_room_leads_back_to_itself() -> None:
    allowed = table()
    above: list[str] = []
    while remaining := [room for room in allowed if room not in above]:
        free = [room for room in remaining if allowed[room] <= set(above)]
        assert free, f"these rooms lead back to themselves: {remaining}"
        above += free


def test_a_room_stands_below_all_that_it_may_import() -> None:
    rooms = list(table())
    for number, room in enumerate(rooms):
        assert table()[room] <= set(rooms[:number]), room


def test_no_two_files_of_tests_share_a_name() -> None:
    # pytest imports them by their names alone.
    names = [path.name for path in (PROJECT / "tests").rglob("test_*.py")]
    assert sorted(names) == sorted(set(names))


def test_no_two_classes_share_a_name() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for name, tree in modules():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(name)
    assert {name: where for name, where in homes.items() if len(where) > 1} == {}


def test_no_source_file_is_longer_than_300_lines() -> None:
    lengths = {file: len(file.read_text(encoding="utf-8").splitlines()) for file in SOURCE.rglob("*.py")}
    assert {str(file.relative_to(SOURCE)): n for file, n in lengths.items() if n > 300} == {}
