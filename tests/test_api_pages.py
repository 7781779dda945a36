"""The reference is whole: every public name has an entry and a docstring, every parameter a description."""

from __future__ import annotations

import importlib.util
import types
from pathlib import Path

import pytest


@pytest.fixture(scope="module")
def api_coverage() -> types.ModuleType:
    """docs/api_coverage.py, which also stops `make docs`."""
    path = Path(__file__).parents[1] / "docs" / "api_coverage.py"
    spec = importlib.util.spec_from_file_location("api_coverage", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_api_pages_lack_nothing(api_coverage: types.ModuleType) -> None:
    assert api_coverage.lacks() == []


def test_the_public_names_are_those_of_the_package_and_of_its_rooms(api_coverage: types.ModuleType) -> None:
    names = api_coverage.public_names()
    assert {"nu_ensembles.fit", "nu_ensembles.metrics.ece", "nu_ensembles.report.figures.member_agreement"} <= set(
        names
    )
    assert len(names) > 100


def test_a_name_without_entry_and_an_entry_without_name_are_lacks(
    api_coverage: types.ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "page.md").write_text(
        ".. currentmodule:: nu_ensembles.metrics\n\n.. autofunction:: ece\n\n.. autofunction:: eec\n", encoding="utf-8"
    )
    monkeypatch.setattr(api_coverage, "PAGES", tmp_path)
    lacks = api_coverage.lacks()
    assert "nu_ensembles.metrics.eec has an entry under docs/api/ and is not public" in lacks
    assert "nu_ensembles.metrics.tace has no entry under docs/api/" in lacks
    assert not any("metrics.ece " in lack for lack in lacks)


def test_a_constant_needs_its_description_on_the_page(
    api_coverage: types.ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(api_coverage, "PAGES", tmp_path)
    lack = "nu_ensembles.corruptions.NAMES is no function and no class, and so needs its description below its entry"
    page.write_text(".. data:: nu_ensembles.corruptions.NAMES\n\nAnother paragraph.\n", encoding="utf-8")
    assert lack in api_coverage.lacks()
    page.write_text(".. data:: nu_ensembles.corruptions.NAMES\n\n   All of them.\n", encoding="utf-8")
    assert lack not in api_coverage.lacks()


def add(a: int, b: int = 1, *others: int) -> int:
    """Adds.

    Args:
      a: the first, which has
        b: only as its second line.
      *others: the rest.
    """
    return a + b + sum(others)


class Scale:
    """Multiplies.

    Args:
      factor: by this.
    """

    def __init__(self, factor: float, offset: float) -> None:
        self.factor, self.offset = factor, offset

    def bare(self) -> None:
        pass


Scale.__module__ = Scale.bare.__module__ = "nu_ensembles.scaling"


@pytest.mark.parametrize(
    ("value", "lacks"),
    [
        (add, ["f says nothing of its parameter b"]),
        (Scale, ["f says nothing of its parameter offset", "f.bare has no docstring"]),
    ],
)
def test_a_parameter_or_method_that_is_not_described_is_a_lack(
    api_coverage: types.ModuleType, value: type, lacks: list[str]
) -> None:
    assert list(api_coverage._lacks_of("f", value, "")) == lacks
