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
from collections.abc import Mapping
from pathlib import Path
from typing import Any

# What a result depends on; a change elsewhere (a page, a message of the command line) leaves results comparable.
ROOMS = ("datasets", "engine", "methods", "metrics", "models", "corruptions")
FILES = ("inputs.py", "labels.py", "preprocessing.py", "problem.py", "training.py")


def maker() -> dict[str, str]:
    """What made the cells of this process."""
    from nu_ensembles.runs import environment

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
    package = Path(__file__).parents[1]
    sources = [path for room in ROOMS for path in (package / room).rglob("*.py")] + [package / file for file in FILES]
    digest = hashlib.sha256()
    for path in sorted(sources):
        digest.update(path.relative_to(package).as_posix().encode())
        digest.update(without_words(path.read_text(encoding="utf-8")).encode())
    return digest.hexdigest()[:12]


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


def in_words(entry: Mapping[str, Any]) -> str:
    """ "nu-ensembles 0.1.0 (code 1a2b…), jax 0.11.2, NVIDIA H200"."""
    return f"nu-ensembles {entry['nu_ensembles']} (code {entry['code']}), jax {entry['jax']}, {entry['device']}"
