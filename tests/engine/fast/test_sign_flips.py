"""The command that flips signs in fast paths: its flips fit the sources, and the documentation says what it found."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def command() -> Any:
    spec = importlib.util.spec_from_file_location("sign_flips", ROOT / "benchmarks" / "sign_flips.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_flip_has_one_place_in_the_sources_and_tests_that_exist(command: Any) -> None:
    for flip in command.flips():
        assert flip["new"] != flip["old"]
        files = [argument for argument in flip["arguments"] if argument.startswith("tests/")]
        assert files
        assert all((ROOT / file).is_file() for file in files)


def test_the_documentation_says_how_many_were_noticed(command: Any) -> None:
    found = json.loads((ROOT / "results" / "sign-flips.json").read_text(encoding="utf-8"))
    assert found["failing_as_it_is"] == []
    assert found["n_flips"] == len(command.flips())
    page = (ROOT / "docs" / "engine.md").read_text(encoding="utf-8")
    assert f"{found['n_noticed']} of {found['n_flips']} flips" in page
