"""Out-of-fold predictions one fold after another, for what cannot train all folds as lanes of one program.

These are methods whose members meet (joint, sequential) and whole procedures. Their members number as many as those
of the final training: what such members are worth depends on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import numpy as np
from jax import Array

from nu_ensembles.engine.assembly import Settings
from nu_ensembles.engine.train import Evaluate
from nu_ensembles.labels import random_key
from nu_ensembles.methods import Method
from nu_ensembles.models import Model
from nu_ensembles.problem import Problem
from nu_ensembles.stages import train_members
from nu_ensembles.tuning.folds import Fold, with_validation
from nu_ensembles.tuning.scores import OutOfFold

# (the problem of the rows that train, x [V, …] that is held out, number of the fold) -> probabilities [S, V, C]
Predict = Callable[[Problem, np.ndarray, int], np.ndarray]


def fold_by_fold(
    problem: Problem,
    folds: Sequence[Fold],
    stops: np.ndarray,
    predict: Predict,
    *,
    beta: float = 0.0,
    validation: tuple[np.ndarray, np.ndarray] | None = None,
) -> OutOfFold:
    """What one candidate predicts out of fold.

    Args:
      stops: int `[S]`, the steps that the predictions are for.
      validation: `(x, codes)` that take the place of the folds.
    """
    x, codes, weight = rows = problem.x, problem.codes, problem.weight
    if validation is not None:
        (x, codes, weight), folds = with_validation(rows, validation)
    found = OutOfFold.empty(np.array([beta]), stops, codes, weight, folds, len(problem.classes))
    by_fold = [predict(problem.part(fold.train), x[fold.held_out], number) for number, fold in enumerate(folds)]
    widest = max(len(fold.held_out) for fold in folds)
    padded = [np.pad(each, ((0, 0), (0, widest - each.shape[1]), (0, 0))) for each in by_fold]
    for stop in range(len(stops)):
        found.add(0, stop, np.stack([each[stop] for each in padded]))
    return found


def along_a_training(
    model: Model, method: Method, settings: Settings, n_members: int, stops: np.ndarray, seed: int | Array, verbose: int
) -> Predict:
    """Predictions of a method at every stop of one training a fold.

    The earlier members of a sequential method have done all steps when a later one starts, whatever the stop.
    """
    key = random_key(seed)

    def predict(part: Problem, x: np.ndarray, fold: int) -> np.ndarray:
        trained = train_members(
            part,
            model,
            method,
            settings,
            range(n_members),
            int(stops[-1]),
            jax.random.fold_in(key, fold),
            evaluate=Evaluate(x, stops.tolist()),
            verbose=verbose,
            description=f"choosing the steps of {method.name}, fold {fold}",
        )
        return np.stack([trained.evaluations[int(stop)].mean(axis=0, dtype=np.float64) for stop in stops])

    return predict
