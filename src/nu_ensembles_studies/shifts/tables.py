"""Tables that shifts are made of: scikit-learn's, and those in the folder that NU_ENSEMBLES_DATA names."""

from __future__ import annotations

import dataclasses
import functools
import os
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles.datasets import load_digits, read_table
from nu_ensembles.datasets.cifar import DATA_FOLDER
from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.tables import RawTable, TableEncoding

BUNDLED = ("digits", "wine", "breast_cancer", "iris")
NUMBERS = ("vehicle", "letter", "dna", "pima", "spam", "german", "cellseg", "cifar10_hog")
# Raw tables with text, numbers and gaps -> the column of labels.
MIXED = {"income": "INCOME", "soybean": "Class", "scat": "Species", "penguins": "species"}
TABLES = (*BUNDLED, *NUMBERS, *MIXED)


@dataclasses.dataclass(frozen=True, eq=False)
class WholeTable:
    """A table as numbers, and as it came.

    Attributes:
      x: float32 `[N, F]`, columns of text one-hot, gaps filled and marked.
      y: labels `[N]`.
      raw: the columns as they came.
    """

    x: np.ndarray
    y: np.ndarray
    raw: RawTable

    def without(self, column: str) -> WholeTable:
        """The table as if it had never had a column."""
        raw = self.raw.only(name for name in self.raw.names if name != column)
        return WholeTable(_encoded(raw), self.y, raw)


def data_folder(data_dir: str | Path | None = None) -> Path | None:
    """The folder of the data sets that do not come with a package, or None if nobody named one."""
    named = data_dir or os.environ.get(DATA_FOLDER)
    return None if named is None else Path(named)


def file_of(name: str, folder: Path) -> Path:
    """Where a table lies in the folder."""
    return folder / "tables" / ("mixed" if name in MIXED else ".") / f"{name}.{'csv' if name in MIXED else 'npz'}"


@functools.lru_cache(maxsize=4)
def read(name: str, folder: Path | None) -> WholeTable:
    """A table by its name, all its rows.

    Raises:
      InputError: the table is not in the folder.
    """
    if name in BUNDLED:
        return _of_numbers(*_bundled(name))
    file = None if folder is None else file_of(name, folder)
    if file is None or not file.is_file():
        where = f"in {file}" if file else f"in the folder that {DATA_FOLDER} names, and none is named"
        raise InputError(f"The table {name} is read {where}; put it there, or leave its shifts out.")
    if name in NUMBERS:
        with np.load(file, allow_pickle=False) as arrays:
            return _of_numbers(arrays["X"], arrays["y"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        table = read_table(file, MIXED[name])
        assert table.y is not None, "a target was named"
        raw = table.rows if isinstance(table.rows, RawTable) else RawTable.of_numbers(np.asarray(table.rows))
        return WholeTable(_encoded(raw), np.asarray(table.y).astype(str), raw)


def _of_numbers(x: Any, y: Any) -> WholeTable:
    x = np.asarray(x, np.float32)
    return WholeTable(x, np.asarray(y), RawTable.of_numbers(x))


def _bundled(name: str) -> tuple[Any, Any]:
    from sklearn import datasets

    if name == "digits":
        return load_digits()
    return getattr(datasets, f"load_{name}")(return_X_y=True)


def _encoded(raw: RawTable) -> np.ndarray:
    """Numbers for all rows; encoders see no labels, and so may see the rows of either place."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        _, (x,) = TableEncoding.fit(raw)
    return x.astype(np.float32)
