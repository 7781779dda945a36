"""Plain trainings to be timed: nothing is evaluated, nothing is kept."""

from __future__ import annotations

import jax
import numpy as np

from nu_ensembles.methods import Procedure
from nu_ensembles.models import Model
from nu_ensembles.problem.problem import prepare
from nu_ensembles.studies.cells import Cell
from nu_ensembles.studies.data import Parts
from nu_ensembles.studies.recipes import any_method_of, settings_of
from nu_ensembles.training.fit_arrays import fit, fit_problem


def train_for(cell: Cell, model: Model, parts: Parts, steps: int) -> None:
    """Trains all members of a cell for so many steps, and waits until it is done."""
    classes = np.arange(parts.n_classes)
    method, settings = any_method_of(cell), settings_of(cell)
    if isinstance(method, Procedure):
        fit(
            model,
            parts.x,
            parts.y,
            parts.x_unlabeled,
            method,
            cell.n_members,
            seed=cell.seed,
            steps=steps,
            classes=classes,
            batch_size=settings.batch_size,
            learning_rate=settings.learning_rate,
            augment=settings.augment,
        )
        return
    problem = prepare(parts.x, parts.y, parts.x_unlabeled, classes=classes)
    trained = fit_problem(problem, model, method, settings, range(cell.n_members), steps, cell.seed)
    jax.block_until_ready(trained)
