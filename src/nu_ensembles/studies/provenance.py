"""Who made a number: version, device, jax, and a fingerprint of the code that training and scoring go through.

Cells of different makers are never averaged unless the user asks for it: bfloat16 on a GPU and float32 on a CPU, or
two versions of a loss, are different experiments.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import io
import tokenize
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from nu_ensembles.errors import InputError

# What a result depends on; a change elsewhere (a page, a message of the command line) leaves results comparable.
ROOMS = (
    "corruptions",
    "datasets",
    "engine",
    "estimator",
    "methods",
    "metrics",
    "models",
    "problem",
    "theory",
    "training",
    "tuning",
)
FILES = ("ensemble.py",)
# Of the studies: what loads, trains, times and measures a cell.
STUDIES = (
    "auto_safety",
    "cost",
    "data",
    "extras",
    "measurements",
    "measuring",
    "networks",
    "one_by_one",
    "out_of_distribution",
    "recipes",
    "side_by_side",
    "tables",
)


def maker() -> dict[str, str]:
    """What made the cells of this process."""
    from nu_ensembles.training.run_folder import environment

    found = environment()
    return {
        "nu_ensembles": found["nu_ensembles"],
        "jax": found["versions"]["jax"],
        "backend": found["backend"],
        "device": found["device"],
        "code": code_fingerprint(),
    }


@functools.cache
def code_fingerprint() -> str:
    """Twelve hexadecimal digits over the code (not its comments and docstrings) that results depend on."""
    digest = hashlib.sha256()
    for name, path in sorted(sources().items()):
        digest.update(name.encode())
        digest.update(without_words(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:12]


def sources() -> dict[str, Path]:
    """The files of that code, by their names in the package."""
    package = Path(__file__).parents[1]
    found = [path for room in ROOMS for path in (package / room).rglob("*.py")] + [package / file for file in FILES]
    found += [package / "studies" / f"{name}.py" for name in STUDIES]
    return {path.relative_to(package).as_posix(): path for path in found}


def without_words(source: str) -> str:
    """The lines of code: no docstrings, comments or blank lines. The same text under every version of Python."""
    lines = source.splitlines()
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            row, column = token.start
            lines[row - 1] = lines[row - 1][:column]
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
            words = node.body[0]
            for row in range(words.lineno, (words.end_lineno or words.lineno) + 1):
                lines[row - 1] = ""
    return "\n".join(line.rstrip() for line in lines if line.strip())


def refuse_others(where: object, others: Iterable[Mapping[str, str]], maker: Mapping[str, str]) -> None:
    """Raises if any of the others is not this maker; `where` they are."""
    for other in others:
        if dict(other) != dict(maker):
            differing = [name for name in maker if other.get(name) != maker[name]]
            raise InputError(
                f"{where} holds cells made by {in_words(other)}, and this is {in_words(maker)} (another "
                f"{', '.join(differing)}): choose another --out, or add --mixed to keep both, each cell with its maker "
                "beside it."
            )


def in_words(entry: Mapping[str, Any]) -> str:
    """ "nu-ensembles 0.1.0 (code 1a2b…), jax 0.11.2, NVIDIA H200"."""
    return f"nu-ensembles {entry['nu_ensembles']} (code {entry['code']}), jax {entry['jax']}, {entry['device']}"
