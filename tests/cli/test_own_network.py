"""Networks of the user's own on the command line: `--network FILE.py:NAME`."""

from __future__ import annotations

from pathlib import Path

import pytest

import nu_ensembles as nu
from nu_ensembles.cli.own_network import own_network

FILE = """
import beside
import nu_ensembles as nu
model = nu.models.mlp(beside.CLASSES)
def make(): return model
number = 3
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("CLASSES = 2")
    (tmp_path / "networks_of_mine.py").write_text(FILE)
    return tmp_path / "networks_of_mine.py"


def test_a_model_and_a_function_that_makes_one_are_taken(file: Path) -> None:
    assert own_network(f"{file}:model") == own_network(f"{file}:make") == nu.models.mlp(2)
    assert own_network(None) is None


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("train", "takes FILE.py:NAME"),
        ("train.py", "takes FILE.py:NAME"),
        ("missing.py:model", "There is no file missing.py"),
        ("FILE:number", "has no network 'number'"),
        ("FILE:absent", "has no network 'absent'"),
    ],
)
def test_what_names_no_network_is_refused(file: Path, place: str, sentence: str) -> None:
    with pytest.raises(nu.InputError, match=sentence):
        own_network(place.replace("FILE", str(file)))


def test_a_file_that_fails_is_named_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("1 / 0")
    with pytest.raises(nu.InputError, match=r"broken\.py fails when it is run for its network \(ZeroDivisionError"):
        own_network(f"{tmp_path / 'broken.py'}:model")
