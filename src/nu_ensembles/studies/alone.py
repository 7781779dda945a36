"""Cells that train by themselves: methods whose members meet (joint, sequential), and whole procedures.

Joint and sequential methods go through the engine and are measured at every epoch on the way. A procedure (several
trainings, or something done with finished networks) has no epochs in between, so each length is a run of its own.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import jax
import jax.numpy as jnp
import numpy as np

from nu_ensembles.engine.predict import predict_lanes
from nu_ensembles.engine.train import Evaluate
from nu_ensembles.methods import Procedure
from nu_ensembles.models import Model
from nu_ensembles.problem.problem import prepare
from nu_ensembles.studies.cells import Cell
from nu_ensembles.studies.data import Parts
from nu_ensembles.studies.recipes import any_method_of, method_of, settings_of, steps_of
from nu_ensembles.studies.trajectories import Arrived, Report
from nu_ensembles.training.fit_arrays import fit, fit_problem


def train_alone(cell: Cell, model: Model, parts: Parts, rows: np.ndarray, report: Report) -> Iterator[Arrived]:
    """Trains one cell; `report(lane steps)` tells of progress.

    Raises:
      NonFiniteLossError: the training diverged.
    """
    if isinstance(any_method_of(cell), Procedure):
        yield from _procedure(cell, model, parts, rows, report)
        return
    # The engine keeps the networks of the last epoch alone, and further measurements ask for those of each.
    lengths = [(epochs,) for epochs in cell.epochs] if cell.also else [cell.epochs]
    for epochs in lengths:
        for arrival in _engine(dataclasses.replace(cell, epochs=epochs), model, parts, rows, report):
            yield dataclasses.replace(arrival, cell=cell)


def _engine(cell: Cell, model: Model, parts: Parts, rows: np.ndarray, report: Report) -> Iterator[Arrived]:
    method, stops = method_of(cell), steps_of(cell)
    problem = prepare(parts.x, parts.y, parts.x_unlabeled, classes=np.arange(parts.n_classes))
    found: dict[int, np.ndarray] = {}
    last = max(stops)
    params, state = fit_problem(
        problem,
        model,
        method,
        settings_of(cell),
        range(cell.n_members),
        last,
        cell.seed,
        evaluate=Evaluate(rows, sorted(stops), then=found.__setitem__),
    )
    report(last * cell.n_members)

    def predict(x: np.ndarray) -> np.ndarray:
        on_device = jax.tree.map(jnp.asarray, (params, state))
        batches = predict_lanes(model, "float32", on_device[0], on_device[1], x, lanes_at_once=1)
        return np.concatenate([probabilities for _, probabilities in batches], axis=1)

    for step, epochs in stops.items():
        yield Arrived(cell, epochs, found[step], predict)


def _procedure(cell: Cell, model: Model, parts: Parts, rows: np.ndarray, report: Report) -> Iterator[Arrived]:
    settings = settings_of(cell)
    for steps, epochs in steps_of(cell).items():
        ensemble = fit(
            model,
            parts.x,
            parts.y,
            parts.x_unlabeled,
            any_method_of(cell),
            cell.n_members,
            seed=cell.seed,
            steps=steps,
            classes=np.arange(parts.n_classes),
            batch_size=settings.batch_size,
            unlabeled_batch_size=settings.unlabeled_batch_size,
            learning_rate=settings.learning_rate,
            weight_decay=settings.weight_decay,
            augment=settings.augment,
            # For procedures that choose among networks; the others only score them there.
            validation=(parts.x_validation, parts.y_validation) if len(parts.x_validation) else None,
        )
        report(steps * cell.n_members)
        yield Arrived(cell, epochs, ensemble.predict_members(rows), ensemble.predict_members)
