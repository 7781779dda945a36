"""Small files to work on, and a way to run a command line inside this process."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from nu_ensembles.cli import main

COLUMNS = ("height", "width", "weight")


class Outcome(NamedTuple):
    """What a command line came to: exit code, standard output, standard error."""

    code: int
    out: str
    err: str


class Desk:
    """A folder with train.csv (24 rows, labels in `kind`), unlabeled.csv (40, without) and test.csv (30, with)."""

    # A fit that takes a second: two members, a few steps, no search.
    quick = ("--members", "2", "--hidden", "8", "--max-iter", "5", "--quiet")

    def __init__(self, folder: Path, command: Callable[..., Outcome]) -> None:
        self.folder, self.command = folder, command
        self.train = self.write("train.csv", *self.rows(24, 0))
        self.unlabeled = self.write("unlabeled.csv", self.rows(40, 1)[0])
        self.test = self.write("test.csv", *self.rows(30, 2))
        self.out = folder / "model"

    @staticmethod
    def rows(n_rows: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Rows `[n, 3]` of two overlapping classes, and their labels "cat" and "dog"."""
        codes = np.arange(n_rows) % 2
        return np.random.default_rng(seed).normal(size=(n_rows, 3)) + codes[:, None], np.array(["cat", "dog"])[codes]

    def write(self, name: str, X: np.ndarray, y: Any = None, columns: Sequence[str] = COLUMNS) -> Path:
        with open(self.folder / name, "w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow([*columns, *(["kind"] if y is not None else [])])
            for index, row in enumerate(X.tolist()):
                writer.writerow([*row, *([y[index]] if y is not None else [])])
        return self.folder / name

    def run(self, *arguments: object) -> Outcome:
        return self.command(*arguments)

    def fit(self, *options: object) -> Outcome:
        """A quick fit of the desk's files with a given beta; later options win over these."""
        given = {"--unlabeled": self.unlabeled, "--target": "kind", "--out": self.out, "--beta": 0.01}
        asked = [each for name, value in given.items() if name not in options for each in (name, value)]
        quick = () if {"--members", "--hidden", "--max-iter"} & set(options) else self.quick
        return self.run("fit", self.train, *asked, *quick, *options)

    def listing(self) -> dict[str, bytes | None]:
        """Everything in the folder: a file's bytes by its name."""
        return {str(path): path.read_bytes() if path.is_file() else None for path in self.folder.rglob("*")}


@pytest.fixture
def desk(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Desk:
    # pytest-xdist sets it; sentences would then be broken where a terminal ends.
    monkeypatch.delenv("COLUMNS", raising=False)

    def command(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main([str(each) for each in arguments])
        said = capsys.readouterr()
        return Outcome(code, said.out, said.err)

    return Desk(tmp_path, command)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a small model that was fitted from such files; not to be changed."""
    desk = Desk(
        tmp_path_factory.mktemp("trained"), lambda *arguments: Outcome(main([str(each) for each in arguments]), "", "")
    )
    assert desk.fit().code == 0
    return desk.out
