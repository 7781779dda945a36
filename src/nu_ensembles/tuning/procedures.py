"""The length of a method of several trainings, and its temperature: the whole of it, fold by fold, at a few lengths.

What suits its first training need not suit the whole: self-training ends with many more rows, and SWAG averages over
its last part. So the procedure is carried out for every length and fold (of repeated deals only the first), which
costs some one and a half times the longest training a fold.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from nu_ensembles.engine.assembly import Settings
from nu_ensembles.labels import random_key
from nu_ensembles.methods import Procedure
from nu_ensembles.models import Model
from nu_ensembles.problem import Problem
from nu_ensembles.runs import RunFolder
from nu_ensembles.stages import predict_members
from nu_ensembles.trainer import fit_members
from nu_ensembles.tuning.choice import SearchResult, choose
from nu_ensembles.tuning.fold_by_fold import fold_by_fold
from nu_ensembles.tuning.folds import Fold, first_deal
from nu_ensembles.tuning.record import search_fingerprint
from nu_ensembles.tuning.search import SearchSettings


def search_procedure(
    run: RunFolder | None,
    problem: Problem,
    model: Model,
    method: Procedure,
    folds: Sequence[Fold],
    settings: Settings,
    max_steps: int,
    seed: int,
    *,
    how: SearchSettings,
    validation: tuple[np.ndarray, np.ndarray] | None = None,
    verbose: int = 0,
) -> SearchResult:
    """Carries the procedure out at `how.n_stops` lengths with `how.n_members` members.

    Args:
      run: keeps what was predicted in every fold, so that a killed search goes on from there.
      validation: `(x, codes)` that take the place of the folds. They score the procedure and are not shown to it.
    """
    stops = how.stops(max_steps)
    key = random_key(seed)
    configuration = (model.spec or model, method, settings, how, max_steps, seed)
    fingerprint = "" if run is None else search_fingerprint(configuration, problem, folds, validation)

    def predict(part: Problem, x: np.ndarray, fold: int) -> np.ndarray:
        def mean_probability(steps: int, name: str) -> np.ndarray:
            at_hand = model, method, settings, range(how.n_members), steps, jax.random.fold_in(key, fold)
            members = fit_members(part, *at_hand, run=run, verbose=verbose, name=f"{name}-")
            return predict_members(members, settings.dtype, x).mean(axis=0, dtype=np.float64)

        found = []
        for steps in stops.tolist():
            name = f"{steps}-steps-without-fold-{fold}"
            if run is None:
                found.append(mean_probability(steps, name))
            else:
                found.append(run.remembered(name, fingerprint, lambda s=steps, n=name: mean_probability(s, n)))
        return np.stack(found)

    return choose(fold_by_fold(problem, first_deal(folds), stops, predict, validation=validation), how.tolerance)
