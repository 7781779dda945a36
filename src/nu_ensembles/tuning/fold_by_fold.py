"""Out-of-fold predictions one fold after another, for what cannot train all folds as lanes of one program.

These are methods whose members meet (joint, sequential) and whole procedures. Their members number as many as those
of the final training: what such members are worth depends on how many there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.contents import unfit
from nu_ensembles.engine.train import Evaluate
from nu_ensembles.errors import InputError
from nu_ensembles.training import RunFolder, TrainingJob, predict_members, run_job
from nu_ensembles.tuning.folds import Fold, first_deal, held_out_of
from nu_ensembles.tuning.record import search_fingerprint
from nu_ensembles.tuning.scores import OutOfFold

if TYPE_CHECKING:
    from nu_ensembles.tuning.search import SearchSettings

# (the job on the rows of a fold that train, x [V, …] that is held out, number of the fold) -> probabilities [S, V, C]
Predict = Callable[[TrainingJob, np.ndarray, int], np.ndarray]


def fold_by_fold(job: TrainingJob, folds: Sequence[Fold], stops: np.ndarray, predict: Predict) -> OutOfFold:
    """What one candidate predicts out of fold.

    Args:
      stops: int `[S]`, the steps that the predictions are for.
    """
    held_out = held_out_of(job, folds)
    beta = float(getattr(job.method, "beta", 0.0))
    found = OutOfFold.empty(np.array([beta]), stops, held_out, len(job.problem.classes))
    by_fold = [
        predict(job.on_rows(fold.train, number), held_out.rows.x[fold.held_out], number)
        for number, fold in enumerate(held_out.folds)
    ]
    widest = max(each.shape[1] for each in by_fold)
    padded = [np.pad(each, ((0, 0), (0, widest - each.shape[1]), (0, 0))) for each in by_fold]
    for stop in range(len(stops)):
        found.add(0, stop, np.stack([each[stop] for each in padded]))
    return found


def along_a_training(
    job: TrainingJob,
    folds: Sequence[Fold],
    how: SearchSettings,
    stops: np.ndarray,
    run: RunFolder | None,
    verbose: int,
) -> OutOfFold:
    """Predictions of a method at every stop of one training a fold.

    The earlier members of a sequential method have done all steps when a later one starts, whatever the stop.

    Args:
      run: keeps what was predicted in every fold, and checkpoints of the one under way.
    """
    keep = _keeping(job, folds, how, run, shape=(len(stops),))

    def predict(of_fold: TrainingJob, x: np.ndarray, fold: int) -> np.ndarray:
        def at_every_stop(name: str) -> np.ndarray:
            seen: dict[int, np.ndarray] = {}
            evaluate = Evaluate(x, stops.tolist(), then=seen.__setitem__)
            run_job(of_fold, evaluate=evaluate, run=run, verbose=verbose, name=f"{name}-", for_good=False)
            return np.stack([seen[int(stop)].mean(axis=0, dtype=np.float64) for stop in stops])

        return keep(f"without-fold-{fold}", len(x), at_every_stop)

    return fold_by_fold(job.replace(n_steps=int(stops[-1])), folds, stops, predict)


def at_every_length(
    job: TrainingJob,
    folds: Sequence[Fold],
    how: SearchSettings,
    stops: np.ndarray,
    run: RunFolder | None,
    verbose: int,
) -> OutOfFold:
    """Predictions of a procedure, carried out at every length.

    What suits its first training need not suit the whole: self-training ends with many more rows, and SWAG averages
    over its last part. So it is carried out for every length and fold (of repeated deals only the first), which costs
    some one and a half times the longest training a fold.

    Args:
      run: keeps what was predicted in every fold, so that a killed search goes on from there.
    """
    if len(stops) > 1 and not getattr(job.method, "has_length", True):
        raise InputError(f"{job.method.name!r} has no number of steps that could be chosen; leave early_stopping out.")
    keep = _keeping(job, folds, how, run)

    def predict(of_fold: TrainingJob, x: np.ndarray, fold: int) -> np.ndarray:
        def at_length(steps: int) -> Callable[[str], np.ndarray]:
            def mean_probability(name: str) -> np.ndarray:
                members = run_job(of_fold.replace(n_steps=steps), run=run, verbose=verbose, name=f"{name}-")
                return predict_members(members, job.settings.dtype, x).mean(axis=0, dtype=np.float64)

            return mean_probability

        lengths = stops.tolist()
        return np.stack([keep(f"{n}-steps-without-fold-{fold}", len(x), at_length(n)) for n in lengths])

    return fold_by_fold(job, first_deal(folds), stops, predict)


def _keeping(
    job: TrainingJob, folds: Sequence[Fold], how: SearchSettings, run: RunFolder | None, shape: tuple[int, ...] = ()
) -> Callable[[str, int, Callable[[str], np.ndarray]], np.ndarray]:
    """A function that gives probabilities `[*shape, V, C]` of a name: computed, or from an earlier life of the run."""
    if run is None:
        return lambda name, _, compute: compute(name)
    fingerprint = search_fingerprint(job, folds, how)

    def keep(name: str, n_rows: int, compute: Callable[[str], np.ndarray]) -> np.ndarray:
        found = run.remembered(name, fingerprint, lambda: compute(name))
        wanted = (*shape, n_rows, len(job.problem.classes))
        if found.shape != wanted or found.dtype.kind != "f" or not np.isfinite(found).all():
            raise unfit(f"The result {name} in {run.folder}", f"finite numbers {list(wanted)}", f"{list(found.shape)}")
        return found

    return keep
