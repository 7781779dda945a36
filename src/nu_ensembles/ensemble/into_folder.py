"""Predictions of more rows than memory holds: a folder of parquet files, with which a killed run goes on.

Part k holds the predictions of rows k·P … (k+1)·P - 1, whatever files these came from; it is written aside and renamed.
So what is there is never predicted again, and what is not is predicted once.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from nu_ensembles import storage
from nu_ensembles.datasets.arrow_rows import ArrowRows
from nu_ensembles.datasets.open_rows import open_rows
from nu_ensembles.datasets.predictions import parquet_bytes, prediction_columns, rows_in_parquet
from nu_ensembles.errors import InputError
from nu_ensembles.lifecycle.folder import LifeFolder
from nu_ensembles.lifecycle.state import other_work
from nu_ensembles.problem.lazily import of_equal_size
from nu_ensembles.progress import counting_bar
from nu_ensembles.rows import LazyRows

if TYPE_CHECKING:
    from nu_ensembles.ensemble.trained import Ensemble

ROWS_A_PART = 1 << 18
# Other programs pass over files whose names begin so when they read the folder as one table.
INDEX = "_predictions.json"
ROWS_AT_ONCE = 1 << 16


@dataclasses.dataclass(frozen=True)
class PredictionParts:
    """The predictions of rows as parts that know nothing of each other, on whichever machine they are made.

    Attributes:
      rows: what to predict.
      folder: of the parts.
      keep: columns of Arrow rows to copy as text.
      rows_each: how many rows a part has, but the last.
    """

    rows: LazyRows
    folder: Path
    keep: tuple[str, ...]
    rows_each: int

    def __len__(self) -> int:
        return -(-len(self.rows) // self.rows_each)

    def bounds(self, number: int) -> tuple[int, int]:
        """The first row of a part, and the first after it."""
        return number * self.rows_each, min((number + 1) * self.rows_each, len(self.rows))

    def size(self, number: int) -> int:
        """How many rows a part has."""
        first, end = self.bounds(number)
        return end - first

    def is_there(self, number: int) -> bool:
        """Whether a part has been written."""
        path = self._path(number)
        return path.exists() and rows_in_parquet(path) == self.size(number)

    def write(self, number: int, ensemble: Ensemble, reader: Reader | None = None) -> None:
        """Predicts a part; reader: goes on from the part before."""
        first, end = self.bounds(number)
        probabilities, kept = [], []
        for part, beside in (reader or Reader(self)).between(first, end):
            probabilities.append(ensemble.predict_proba(part))
            kept.append(beside)
        columns = {"row": np.arange(first, end)}
        columns |= {name: np.concatenate([each[name] for each in kept]) for name in self.keep}
        columns = prediction_columns(np.concatenate(probabilities), ensemble.classes, kept=columns)
        storage.write_bytes(self._path(number), parquet_bytes(columns))

    def _path(self, number: int) -> Path:
        return self.folder / f"part-{number:05d}.parquet"


# Writes parts in any order; gives each as it ends, with what went wrong or something that is no exception.
WriteParts = Callable[[PredictionParts, Sequence[int]], Iterator[tuple[int, Any]]]


def predict_into(
    ensemble: Ensemble,
    x: Any,
    folder: str | Path,
    *,
    resume: bool = False,
    keep: Sequence[str] = (),
    verbose: int = 0,
    write_parts: WriteParts | None = None,
) -> dict[str, Any]:
    """Writes `part-00000.parquet` and so on, with a line for each row: its number, what is kept, and its prediction.

    Args:
      x: what to predict; see `nu.datasets.open_rows`.
      folder: new, or that of a killed run if `resume`.
      resume: go on with what is there.
      keep: columns of Arrow rows to copy as text.
      verbose: 1 shows progress.
      write_parts: writes the parts that are missing; None writes them here, one after another.

    Returns:
      `n_rows`, `n_parts`, and how many parts were there already, `n_earlier`.

    Raises:
      InputError: the folder is that of other predictions, or some parts cannot be predicted; others are.
    """
    channels = ensemble.row_shape[-1] if ensemble.pixels and len(ensemble.row_shape) == 3 else None
    rows = open_rows(x, "X", channels=channels)
    if isinstance(rows, ArrowRows) and ensemble.encoding is not None and ensemble.encoding.named:
        rows = rows.only(ensemble.encoding.columns, ignore=keep)
    if keep and not isinstance(rows, ArrowRows):
        raise InputError("Only columns of parquet and Arrow files can be kept; leave out what to keep.")
    parts = PredictionParts(rows, Path(folder), tuple(keep), ROWS_A_PART)
    asked = {"fingerprint": _fingerprint(ensemble, rows, keep), "n_rows": len(rows), "rows_a_part": ROWS_A_PART}
    with LifeFolder(folder, "predictions") as life, counting_bar("predicting", len(rows), verbose=verbose) as show:
        _begin(life, asked, resume)
        there = [number for number in range(len(parts)) if parts.is_there(number)]
        show(sum(map(parts.size, there)))
        wrong: list[str] = []
        left = sorted(set(range(len(parts))) - set(there))
        for number, found in (write_parts or _one_by_one(ensemble))(parts, left):
            if isinstance(found, InputError):
                wrong.append(str(found))
            elif isinstance(found, Exception):
                wrong.append(f"Part {number} was given up: its worker failed ({type(found).__name__}: {found}).")
            show(parts.size(number))
        if wrong:
            more = f" {len(wrong) - 1} further parts failed, too." if len(wrong) > 1 else ""
            raise InputError(f"{wrong[0]}{more} All other parts are predicted; resume for the rest.")
        life.end()
    return {"n_rows": len(rows), "n_parts": len(parts), "n_earlier": len(there)}


def _one_by_one(ensemble: Ensemble) -> WriteParts:
    def write(parts: PredictionParts, left: Sequence[int]) -> Iterator[tuple[int, Any]]:
        reader = Reader(parts)
        for number in left:
            parts.write(number, ensemble, reader)
            yield number, None

    return write


class Reader:
    """Reads rows in their order, and goes on where it was if it can."""

    def __init__(self, parts: PredictionParts) -> None:
        self.rows, self.keep, self.at_once = parts.rows, list(parts.keep), min(ROWS_AT_ONCE, parts.rows_each)
        self.position = -1

    def between(self, first: int, end: int) -> Iterator[tuple[Any, Any]]:
        """The rows from `first` to `end`, some at a time, with the columns to keep."""
        if first != self.position:
            self.parts = of_equal_size(self.rows.in_parts(first), self.at_once)
            self.kept: Iterator[Any] = itertools.repeat(None)
            if self.keep and isinstance(self.rows, ArrowRows):
                self.kept = of_equal_size(self.rows.text_in_parts(first, self.keep), self.at_once)
        self.position = end
        for start in range(first, end, self.at_once):
            found, kept = next(self.parts, ()), next(self.kept, None)
            if len(found) != min(self.at_once, end - start):
                raise InputError("The files have other rows than when they were opened; start again.")
            yield found, kept


def _begin(life: LifeFolder, asked: dict[str, Any], resume: bool) -> None:
    index = life.folder / INDEX
    if life.started and not resume:
        raise InputError(
            f"{life.folder} exists; resume the predictions in it (resume=True, --resume), or choose another."
        )
    if index.exists():
        if storage.read_sealed_json(index, "The index of predictions") != asked:
            raise other_work(f"What is in {life.folder}")
    elif life.started and not life.unfinished:
        raise InputError(f"{life.folder} holds something else than predictions; choose another folder.")
    life.begin()
    if not index.exists():
        storage.write_sealed_json(index, asked)


def _fingerprint(ensemble: Ensemble, rows: LazyRows, keep: Sequence[str]) -> str:
    digest = hashlib.sha256(f"{rows.fingerprint} {list(keep)} {ensemble.classes.tolist()}".encode())
    for leaf in jax.tree.leaves((ensemble.params, ensemble.model_state)):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    digest.update(f"{ensemble.temperature} {ensemble.calibrator} {ensemble.companion is None}".encode())
    return digest.hexdigest()
