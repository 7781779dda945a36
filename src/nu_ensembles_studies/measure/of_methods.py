"""One way to train on rows of a source, measured there and on a deployment that may differ, with as many steps as the
standard ensemble or with as much processor time.

Under "as much time" the method is timed first: a long training less a short one, so that what every training pays once
is left out, and the same of the standard ensemble. It is timed once for all seeds and shifts of a data set, whose steps
cost the same. So many steps as come out are a measurement and may differ when it is made again; all else follows from
the cell.
"""

from __future__ import annotations

import dataclasses
import functools
import statistics
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles import fit
from nu_ensembles.metrics import evaluate
from nu_ensembles_studies import shifts
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.measure.jobs import method_of
from nu_ensembles_studies.results.json_numbers import plain

# Steps of the two trainings that are timed; and bounds of a length, in lengths of the standard ensemble.
TIMED_STEPS, TIMED_TURNS = (20, 220), 3
SHORTEST, LONGEST = 0.05, 10.0
# What the clock cannot tell from nothing.
LEAST_SECONDS = 1e-6
DIGITS, GREYEST = "digits.", 16


def scores_at_equal_steps(cell: StudyCell, data_dir: Path | None) -> dict[str, Any]:
    """Scores with as many steps as a cell says, which counts steps where others count epochs."""
    return _scores(cell, rows_of(cell, data_dir), cell.epochs[-1])


def scores_at_equal_time(cell: StudyCell, data_dir: Path | None) -> dict[str, Any]:
    """Scores with as many steps as take the time of the standard ensemble's."""
    times = 1.0 if cell.method == "standard" else times_a_standard_step(cell, data_dir)
    steps = max(1, round(min(max(1 / times, SHORTEST), LONGEST) * cell.epochs[-1]))
    found = _scores(cell, rows_of(cell, data_dir), steps)
    return {**found, "time": {**found["time"], "times_a_standard_step": times}}


def times_a_standard_step(cell: StudyCell, data_dir: Path | None) -> float:
    """How many steps of the standard ensemble take as long as one of the cell's."""
    timed = dataclasses.replace(cell, dataset=f"{cell.dataset.split('.')[0]}.same", seed=0)
    # As many images a step, of which a method that uses unlabelled rows has half from these.
    images = cell.batch_size * (2 if method_of(cell).uses_unlabeled else 1)
    standard = dataclasses.replace(timed, method="standard", options=(), batch_size=images)
    return _seconds_of(timed, data_dir) / _seconds_of(standard, data_dir)


@functools.cache
def _seconds_of(cell: StudyCell, data_dir: Path | None) -> float:
    rows = rows_of(cell, data_dir)
    return seconds_a_step(lambda steps: _trained(cell, rows, steps))


def seconds_a_step(train: Callable[[int], Any]) -> float:
    """Processor seconds that a step takes, the median of some turns; `train` trains for so many."""
    short, long = TIMED_STEPS
    for steps in TIMED_STEPS:
        train(steps)  # compiles, some methods for every length
    slopes = []
    for _ in range(TIMED_TURNS):
        times = [time.process_time()]
        for steps in TIMED_STEPS:
            train(steps)
            times.append(time.process_time())
        slopes.append((times[2] - 2 * times[1] + times[0]) / (long - short))
    return max(statistics.median(slopes), LEAST_SECONDS)


def rows_of(cell: StudyCell, data_dir: Path | None) -> shifts.Shifted:
    """The rows of a cell; the digits as images whatever the shift."""
    name = cell.dataset if "." in cell.dataset else f"{cell.dataset}.same"
    rows = shifts.load(name, cell.seed, cell.n_train, data_dir)
    if not name.startswith(DIGITS) or rows.x.ndim > 2:
        return rows
    names = ("x", "x_source_test", "x_unlabeled", "x_test")
    images = {name: (getattr(rows, name).reshape(-1, 8, 8) / GREYEST).astype(np.float32) for name in names}
    return dataclasses.replace(rows, **images)


def _trained(cell: StudyCell, rows: shifts.Shifted, steps: int) -> Any:
    return fit(
        cell.model,
        rows.x,
        rows.y,
        # Of no part in the training of many methods, but in the scaling of columns.
        rows.x_unlabeled,
        method=method_of(cell),
        n_members=cell.n_members,
        steps=steps,
        seed=cell.seed,
        batch_size=cell.batch_size,
        learning_rate=cell.learning_rate,
        standardize=rows.x.ndim == 2,
        verbose=0,
    )


def _scores(cell: StudyCell, rows: shifts.Shifted, steps: int) -> dict[str, Any]:
    began = time.process_time()
    ensemble = _trained(cell, rows, steps)
    seconds = time.process_time() - began
    parts = {"test": (rows.x_test, rows.y_test), "source": (rows.x_source_test, rows.y_source_test)}
    scores = {name: plain(evaluate(ensemble.predict_members(x), y)) for name, (x, y) in parts.items()}
    found = {**scores, "time": {"steps": steps, "seconds": seconds, "n_members": ensemble.n_members}}
    if getattr(method_of(cell), "has_length", True):
        return found
    return found | {"chains": chains_of(ensemble.training["procedure"])}


def chains_of(told: Mapping[str, Any]) -> dict[str, Any]:
    """How chains have mixed, as one level of numbers, from what their method tells."""
    found = {name: told[name] for name in ("acceptance", "leapfrog_steps")}
    return found | {f"{of}_{name}": number for of in ("predictions", "weights") for name, number in told[of].items()}
