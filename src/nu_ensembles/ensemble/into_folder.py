"""Predictions of more rows than memory holds: a folder of parquet files, with which a killed run goes on.

Part k holds the predictions of rows k·P … (k+1)·P - 1, whatever files these came from; it is written aside and renamed.
So what is there is never predicted again, and what is not is predicted once.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Sequence
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


def predict_into(
    ensemble: Ensemble,
    x: Any,
    folder: str | Path,
    *,
    resume: bool = False,
    keep: Sequence[str] = (),
    verbose: int = 0,
) -> dict[str, Any]:
    """Writes `part-00000.parquet` and so on, with a line for each row: its number, what is kept, and its prediction.

    Args:
      x: what to predict; see `nu.datasets.open_rows`.
      folder: new, or that of a killed run if `resume`.
      resume: go on with what is there.
      keep: columns of Arrow rows to copy as text.
      verbose: 1 shows progress.

    Returns:
      `n_rows`, `n_parts`, and how many parts were there already, `n_earlier`.
    """
    channels = ensemble.row_shape[-1] if ensemble.pixels and len(ensemble.row_shape) == 3 else None
    rows = open_rows(x, "X", channels=channels)
    if isinstance(rows, ArrowRows) and ensemble.encoding is not None and ensemble.encoding.named:
        rows = rows.only(ensemble.encoding.columns, ignore=keep)
    n_parts = -(-len(rows) // ROWS_A_PART)
    asked = {"fingerprint": _fingerprint(ensemble, rows, keep), "n_rows": len(rows), "rows_a_part": ROWS_A_PART}
    with LifeFolder(folder, "predictions") as life:
        _begin(life, asked, resume)
        there = [_is_there(life.folder, number, len(rows)) for number in range(n_parts)]
        reader = _Reader(rows, keep)
        with counting_bar("predicting", len(rows), verbose=verbose) as show:
            for number in np.flatnonzero(~np.array(there, bool)).tolist():
                first, end = _bounds(number, len(rows))
                probabilities, kept = [], []
                for part, beside in reader.between(first, end):
                    probabilities.append(ensemble.predict_proba(part))
                    kept.append(beside)
                    show(len(probabilities[-1]))
                columns = {"row": np.arange(first, end)}
                columns |= {name: np.concatenate([each[name] for each in kept]) for name in keep}
                columns = prediction_columns(np.concatenate(probabilities), ensemble.classes, kept=columns)
                storage.write_bytes(_part(life.folder, number), parquet_bytes(columns))
        life.end()
    return {"n_rows": len(rows), "n_parts": n_parts, "n_earlier": sum(there)}


class _Reader:
    """Reads rows in their order, and goes on where it was if it can."""

    def __init__(self, rows: LazyRows, keep: Sequence[str]) -> None:
        if keep and not isinstance(rows, ArrowRows):
            raise InputError("Only columns of parquet and Arrow files can be kept; leave out what to keep.")
        self.rows, self.keep = rows, list(keep)
        self.position = -1

    def between(self, first: int, end: int) -> Iterator[tuple[Any, Any]]:
        """The rows from `first` to `end`, some at a time, with the columns to keep."""
        if first != self.position:
            self.parts = of_equal_size(self.rows.in_parts(first), ROWS_AT_ONCE)
            self.kept: Iterator[Any] = itertools.repeat(None)
            if self.keep and isinstance(self.rows, ArrowRows):
                self.kept = of_equal_size(self.rows.text_in_parts(first, self.keep), ROWS_AT_ONCE)
        self.position = end
        for _ in range(first, end, ROWS_AT_ONCE):
            yield next(self.parts), next(self.kept)


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


def _bounds(number: int, n_rows: int) -> tuple[int, int]:
    return number * ROWS_A_PART, min((number + 1) * ROWS_A_PART, n_rows)


def _part(folder: Path, number: int) -> Path:
    return folder / f"part-{number:05d}.parquet"


def _is_there(folder: Path, number: int, n_rows: int) -> bool:
    first, end = _bounds(number, n_rows)
    path = _part(folder, number)
    return path.exists() and rows_in_parquet(path) == end - first


def _fingerprint(ensemble: Ensemble, rows: LazyRows, keep: Sequence[str]) -> str:
    digest = hashlib.sha256(f"{rows.fingerprint} {list(keep)} {ensemble.classes.tolist()}".encode())
    for leaf in jax.tree.leaves((ensemble.params, ensemble.model_state)):
        digest.update(np.ascontiguousarray(leaf).tobytes())
    digest.update(f"{ensemble.temperature} {ensemble.calibrator} {ensemble.companion is None}".encode())
    return digest.hexdigest()
