"""What the API pages lack: public names without an entry or a docstring, parameters without a description.

`make docs` and a test stop at the first lack; `python docs/api_coverage.py` prints all of them.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nu_ensembles as nu

PAGES = Path(__file__).parent / "api"
PACKAGE = nu.__name__
ROOMS = (
    "calibration",
    "corruptions",
    "datasets",
    "methods",
    "metrics",
    "models",
    "theory",
    "searches",
    "report.figures",
)
# A directive, or the page's module for the names of those that follow; then the indented lines below it.
DIRECTIVE = re.compile(r"^\.\. (auto\w+|data|currentmodule):: (\S+)\n((?:[ \t]+\S.*\n|\n(?=[ \t]))*)", re.MULTILINE)
SECTION = re.compile(r"^(Args|Attributes):\n((?:[ ]+.*\n|\n)+)", re.MULTILINE)
ENTRY = re.compile(r"^  \*{0,2}(\w+): +\S", re.MULTILINE)


def public_names() -> dict[str, Any]:
    """Everything public by its full name: what the package lists, and what its rooms list (all functions of a file)."""
    found = {f"{PACKAGE}.{name}": getattr(nu, name) for name in nu.__all__}
    found = {name: value for name, value in found.items() if not inspect.ismodule(value) and not name.endswith("__")}
    for room in ROOMS:
        module = importlib.import_module(f"{PACKAGE}.{room}")
        listed = getattr(module, "__all__", None) or [
            name for name, value in vars(module).items() if name[0] != "_" and _is_function_of(value, module.__name__)
        ]
        found |= {f"{module.__name__}.{name}": getattr(module, name) for name in listed}
    return found


def entries() -> dict[str, str]:
    """The names that the API pages describe, in full, and the text below each entry."""
    found = {}
    for page in sorted(PAGES.glob("*.md")):
        module = ""
        for kind, name, below in DIRECTIVE.findall(page.read_text(encoding="utf-8")):
            if kind == "currentmodule":
                module = name
            else:
                found[f"{module}.{name}" if module else name] = below
    return found


def lacks() -> list[str]:
    """One sentence for each thing that the API pages lack; an entry that names nothing public is one, too."""
    names, described = public_names(), entries()
    done = {id(names[name]) for name in described if name in names}  # nu.Model is nu.models.Model
    return [
        *(f"{name} has no entry under docs/api/" for name, value in names.items() if id(value) not in done),
        *(f"{name} has an entry under docs/api/ and is not public" for name in described if name not in names),
        *(lack for name, value in names.items() for lack in _lacks_of(name, value, described.get(name, ""))),
    ]


def _lacks_of(name: str, value: Any, below: str) -> Iterator[str]:
    if inspect.isclass(value):
        yield from _undescribed(name, _docstring(value), _fields(value))
        for own_name, member in inspect.getmembers(value):
            if own_name[0] != "_" and _is_ours(member) and not _said_at_the_protocol(value, own_name):
                parameters = [] if isinstance(member, property) else _parameters(member)
                yield from _undescribed(f"{name}.{own_name}", inspect.getdoc(member), parameters)
    elif inspect.isfunction(value):
        yield from _undescribed(name, inspect.getdoc(value), _parameters(value))
    elif not re.search(r"^[ \t]+[^:\s]", below, re.MULTILINE):
        yield f"{name} is no function and no class, and so needs its description below its entry"


def _undescribed(name: str, docstring: str | None, parameters: list[str]) -> Iterator[str]:
    if not docstring:
        yield f"{name} has no docstring"
        return
    described = {entry for _, text in SECTION.findall(docstring + "\n") for entry in ENTRY.findall(text)}
    for parameter in parameters:
        if parameter not in described:
            yield f"{name} says nothing of its parameter {parameter}"


def _docstring(cls: type) -> str:
    """That of a class, and of the base whose attributes it says it has."""
    own = inspect.getdoc(cls) or ""
    bases = [each for each in cls.__mro__[1:] if f"Attributes: those of `{each.__name__}`" in own]
    return "\n\n".join([own, *(inspect.getdoc(each) or "" for each in bases)])


def _fields(cls: type) -> list[str]:
    """What a class takes when it is made; a protocol is never made, and has attributes."""
    if getattr(cls, "_is_protocol", False):
        return list(inspect.get_annotations(cls))
    return [] if issubclass(cls, Exception) else _parameters(cls)


def _parameters(function: Callable[..., Any]) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def _said_at_the_protocol(cls: type, name: str) -> bool:
    """What every method has is described once, where the protocol of methods is."""
    protocol = nu.methods.Method
    return cls is not protocol and name in {*dir(protocol), *inspect.get_annotations(protocol)}


def _is_function_of(value: Any, module: str) -> bool:
    return inspect.isfunction(value) and value.__module__ == module


def _is_ours(member: Any) -> bool:
    function = member.fget if isinstance(member, property) else member
    return callable(function) and str(getattr(function, "__module__", "")).startswith(PACKAGE)


if __name__ == "__main__":
    found = lacks()
    print("\n".join(found))
    sys.exit(f"{len(found)} things are not described." if found else 0)
