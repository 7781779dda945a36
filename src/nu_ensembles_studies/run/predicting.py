"""Predictions of many parquet files on an executor: a file is a task, and becomes a file of the same name.

Model, data and predictions lie where all workers see them. A file of predictions appears whole or not at all, and what
is there is not predicted again: the same command goes on after a kill, with no row twice and none missing.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nu_ensembles import storage
from nu_ensembles.datasets import read_table
from nu_ensembles.datasets.predictions import write_predictions
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.errors import InputError
from nu_ensembles.lifecycle.folder import LifeFolder
from nu_ensembles_studies.run.executors import Executor

ASKED = "predictions.json"


class Predicting(NamedTuple):
    """What all files share: the model's folder, where predictions go, and how a file is read (see `read_table`)."""

    model: Path
    out: Path
    reading: Mapping[str, Any]


def predict_files(
    how: Predicting, files: Sequence[Path], executor: Executor, told: Callable[[int], None] = lambda n: None
) -> int:
    """Predicts what the folder does not hold yet; how many files that were.

    Args:
      told: of each file that has ended.

    Raises:
      InputError: the folder is that of other predictions, or some files cannot be predicted; the others are.
    """
    asked = {
        "model": storage.read_json(how.model / "manifest.json", "The manifest"),
        "reading": {name: list(v) if isinstance(v, tuple) else v for name, v in how.reading.items()},
        "files": [file.name for file in files],
    }
    with LifeFolder(how.out, "predictions") as life:
        if life.started and not (how.out / ASKED).exists():
            raise InputError(f"{how.out} holds something else than predictions: choose another folder.")
        if life.started and storage.read_sealed_json(how.out / ASKED, "What was asked for") != asked:
            raise InputError(f"{how.out} holds predictions by another model, or of other files: choose another folder.")
        life.begin()
        storage.write_sealed_json(how.out / ASKED, asked)
        left = [file for file in files if not (how.out / file.name).exists()]
        told(len(files) - len(left))
        wrong: list[str] = []
        for file, found in executor.results(predict_file, left, how):
            if isinstance(found, InputError):
                wrong.append(str(found))
            elif isinstance(found, Exception):
                wrong.append(f"{file} was given up: its worker failed ({type(found).__name__}: {found}).")
            told(1)
        if wrong:
            more = f" {len(wrong) - 1} further files failed, too." if len(wrong) > 1 else ""
            raise InputError(f"{wrong[0]}{more} The others are predicted; give the same command again for the rest.")
        life.end()
    return len(left)


def predict_file(how: Predicting, file: Path) -> int:
    """Predicts one file, on whichever machine; how many rows it has."""
    ensemble = _loaded(how.model, (how.model / "manifest.json").stat().st_mtime_ns)
    rows = read_table(file, None, **how.reading)
    probabilities = ensemble.predict_proba(rows.rows)
    place = how.out / file.name
    if not place.exists():  # a worker that was taken for dead may have come to its end
        write_predictions(place, probabilities, ensemble.classes, rows.row_names, rows.kept)
    return len(probabilities)


@functools.lru_cache(maxsize=1)
def _loaded(model: Path, _: int) -> Ensemble:
    return Ensemble.load(model)
