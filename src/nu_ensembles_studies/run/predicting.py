"""Predictions on an executor: a part of 262,144 rows is a task, whichever files these rows come from.

A task reads and predicts some rows at a time, so a file may be larger than the memory of a node. Model, data and
predictions lie where all workers see them. A part appears whole or not at all, and what is there is not predicted
again: the same command goes on after a kill, with no row twice and none missing.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from nu_ensembles.ensemble import Ensemble
from nu_ensembles.ensemble.into_folder import PredictionParts, WriteParts
from nu_ensembles_studies.run.executors import Executor


class Predicting(NamedTuple):
    """What all tasks share: the model's folder, and the parts."""

    model: Path
    parts: PredictionParts


def written_on(executor: Executor, model: Path) -> WriteParts:
    """What writes parts on an executor, with the model in a folder that its workers see."""

    def write(parts: PredictionParts, left: Sequence[int]) -> Iterator[tuple[int, Any]]:
        return executor.results(write_part, left, Predicting(model.resolve(), parts))

    return write


def write_part(how: Predicting, number: int) -> None:
    """Predicts a part, on whichever machine."""
    if not how.parts.is_there(number):  # a worker that was taken for dead may have come to its end
        how.parts.write(number, _loaded(how.model, (how.model / "manifest.json").stat().st_mtime_ns))


@functools.lru_cache(maxsize=1)
def _loaded(model: Path, _: int) -> Ensemble:
    return Ensemble.load(model)
