"""A rival on a split of a table: test scores, and the processor time that fitting and predicting took.

All methods get the same numbers: columns of text one-hot, gaps filled and marked, fitted on all rows without their
labels. Of every class at least two rows are labelled; the others are drawn evenly.
"""

from __future__ import annotations

import dataclasses
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles import tuning
from nu_ensembles.calibration import AUTO
from nu_ensembles.engine.settings import Settings
from nu_ensembles.estimator import NuEnsembleClassifier
from nu_ensembles.methods import Standard
from nu_ensembles.metrics import evaluate
from nu_ensembles.problem import prepare, random_key
from nu_ensembles.training import make_job
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.measure.parts import Parts
from nu_ensembles_studies.measure.rivals import RIVALS, Rival, Split
from nu_ensembles_studies.results.json_numbers import plain
from nu_ensembles_studies.shifts.drawing import FEWEST_OF_A_CLASS, at_least_two_each
from nu_ensembles_studies.shifts.tables import data_folder, read

# A probability of 0 would cost a rival everything on one row: all methods' are held above this.
LEAST_PROBABILITY = 1e-6


def split_of(cell: StudyCell, data_dir: Path | None = None) -> Parts:
    """The rows of a cell; another seed draws others, and the same seed and size the same for every method."""
    table = read(cell.dataset, data_folder(data_dir))
    _, codes, counts = np.unique(table.y, return_inverse=True, return_counts=True)
    known = np.flatnonzero(counts[codes] > FEWEST_OF_A_CLASS)
    classes, y = np.unique(codes[known], return_inverse=True)
    x = table.x[known]
    rng = np.random.default_rng([cell.seed, cell.n_train, 47])
    order = rng.permutation(len(y))
    chosen = at_least_two_each(y[order], min(cell.n_train, len(order) // 2))
    labelled, rest = order[chosen], order[~chosen]
    n_unlabeled = min(len(rest) // 2, cell.n_unlabeled)
    unlabeled, test = rest[:n_unlabeled], rest[n_unlabeled:][: cell.n_test]
    arrays = [part for rows in (labelled, unlabeled, labelled[:0], test) for part in (x[rows], y[rows])]
    return Parts(*arrays, n_classes=len(classes))


def rival_scores(cell: StudyCell, parts: Parts) -> dict[str, Any]:
    """The scores of one rival."""
    rival = RIVALS[cell.method]
    split = Split(cell.seed, cell.n_members, int(np.bincount(parts.y).min()))
    about = {"package": rival.version}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of what did not converge, or of folds without some class
        started = time.process_time()
        classifier = fitted(rival, split, parts)
        probabilities = classifier.predict_proba(parts.x_test)
        cost = {"processor_seconds": round(time.process_time() - started, 3)}
        further = of_nu(classifier, parts) if isinstance(classifier, NuEnsembleClassifier) else {}
    return {"test": scores_of(probabilities, parts), "cost": cost, **about, **further}


def of_nu(classifier: NuEnsembleClassifier, parts: Parts) -> dict[str, Any]:
    """What the same networks give with a calibrator, a companion or both, as the classifier's own arguments make them.

    They are made after the fit, from the search that it keeps, so that no network is trained twice.
    """
    search, ensemble = classifier.search_, classifier.ensemble_
    problem = prepare(parts.x, parts.y, parts.x_unlabeled, standardize=ensemble.standardisation is not None)
    job = make_job(problem, "mlp", Standard(), Settings(), 1, 1, random_key(ensemble.training["seed"]))
    started = time.process_time()
    assert search is not None, "beta is chosen by a search"
    companion, pooled, _ = tuning.accompanied(search, job)
    accompanied = dataclasses.replace(ensemble, companion=companion)
    found = {"companion": scores_of(accompanied.predict_proba(parts.x_test), parts)}
    seconds = round(time.process_time() - started, 3)
    calibrators = {}
    for name, each, predicted in (("calibrated", ensemble, None), ("companion_calibrated", accompanied, pooled)):
        calibrator = tuning.calibrated(search, AUTO, predicted).calibrator
        calibrators[f"{name}_by"] = "none" if calibrator is None else calibrator.name
        probabilities = dataclasses.replace(each, calibrator=calibrator).predict_proba(parts.x_test)
        found[name] = scores_of(probabilities, parts)
    assert companion is not None, "one was asked for"
    choice = {"beta": classifier.beta_, "n_steps": classifier.n_steps_, "weight": companion.weight, **calibrators}
    return {**found, "choice": choice, "companion_cost": {"processor_seconds": seconds}}


def fitted(rival: Rival, split: Split, parts: Parts) -> Any:
    """A rival that has seen the labelled rows, and the unlabelled ones in the way that it takes them."""
    classifier = rival.make(split)
    if rival.unlabeled == "rows":
        return classifier.fit(parts.x, parts.y, X_unlabeled=parts.x_unlabeled)
    if rival.unlabeled == "marked":
        y = np.concatenate([parts.y, np.full(len(parts.x_unlabeled), -1)])
        return classifier.fit(np.concatenate([parts.x, parts.x_unlabeled]), y)
    return classifier.fit(parts.x, parts.y)


def scores_of(probabilities: Any, parts: Parts) -> dict[str, float | None]:
    """All metrics of one classifier on the test rows; rows without any probability count as uniform."""
    probabilities = np.asarray(probabilities, np.float64)
    empty = ~np.isfinite(probabilities).all(axis=1) | (np.nansum(probabilities, axis=1) <= 0)
    probabilities = np.where(empty[:, None], 1.0, probabilities)
    held = np.maximum(probabilities / probabilities.sum(axis=1, keepdims=True), LEAST_PROBABILITY)
    held /= held.sum(axis=1, keepdims=True)
    return plain(evaluate(held[None], parts.y_test))
