"""Calibrators fitted out of fold on few labels: test NLL of each against no calibration, whatever made the predictions.

    NU_ENSEMBLES_DATA=FOLDER python benchmarks/calibrators.py [--first-seed 5] [--seeds 3] [--labels 50 100]

The tables and splits are those of the study `rivals`. What is calibrated comes from scikit-learn, so that it runs in
minutes and is wrong in several ways: three neural networks (too sure), a forest (too cautious), logistic regression
(about right), naive Bayes (far too sure). Each calibrator is fitted on predictions of five folds and applied to those
of a fit on all labelled rows, as the classifiers of this package do it. Every split is written at once and not measured
again when the command is given once more.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from nu_ensembles.calibration import AUTO, CALIBRATORS, build, choose_calibrator
from nu_ensembles.errors import InputError
from nu_ensembles.metrics import ece, nll
from nu_ensembles.storage import write_json
from nu_ensembles.training import environment
from nu_ensembles.tuning import stratified_folds
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.study import cells_of
from nu_ensembles_studies.experiments.rivals import RIVALS_STUDY
from nu_ensembles_studies.measure.parts import Parts
from nu_ensembles_studies.measure.rival_scores import LEAST_PROBABILITY, split_of

NETWORKS = 3


def bases(seed: int) -> dict[str, list[Any]]:
    """What is calibrated: the members of an ensemble each."""
    networks = [MLPClassifier((64,), max_iter=200, random_state=seed * NETWORKS + k) for k in range(NETWORKS)]
    return {
        "neural networks": [make_pipeline(StandardScaler(), network) for network in networks],
        "forest": [RandomForestClassifier(100, random_state=seed)],
        "logistic regression": [make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))],
        "naive Bayes": [GaussianNB(var_smoothing=1e-3)],
    }


def predicted(members: list[Any], x: np.ndarray, y: np.ndarray, rows: np.ndarray, n_classes: int) -> np.ndarray:
    """Probabilities `[K, N, C]` of rows by members fitted on others, which need not hold every class."""
    found = np.full((len(members), len(rows), n_classes), LEAST_PROBABILITY)
    for number, member in enumerate(members):
        fitted = member.fit(x, y)
        found[number][:, fitted.classes_] = np.maximum(fitted.predict_proba(rows), LEAST_PROBABILITY)
    return found / found.sum(axis=2, keepdims=True)


def measure(parts: Parts, seed: int) -> list[dict[str, Any]]:
    """For each base the scores on the test rows with no calibrator and with every other."""
    folds = stratified_folds(parts.y, 5, 1, seed)
    found = []
    for base, members in bases(seed).items():
        held_out = np.empty((len(members), len(parts.y), parts.n_classes))
        fold_of = np.empty(len(parts.y), int)
        for number, (train, others) in enumerate(folds):
            held_out[:, others] = predicted(members, parts.x[train], parts.y[train], parts.x[others], parts.n_classes)
            fold_of[others] = number
        test = predicted(members, parts.x, parts.y, parts.x_test, parts.n_classes)
        started = time.process_time()
        choice = choose_calibrator(held_out, parts.y, fold_of, candidates=AUTO)
        seconds = time.process_time() - started
        fitted = {"auto": choice.fitted}
        for name, kind in CALIBRATORS.items():
            if not kind.takes_members or len(members) > 1:
                fitted[name] = build(name).fit(held_out, parts.y)
        scores = {name: _scores(calibrator.apply(test), parts.y_test) for name, calibrator in fitted.items()}
        found.append({"base": base, "taken": choice.name, "auto_seconds": round(seconds, 3), "scores": scores})
    return found


def _scores(probabilities: np.ndarray, y: np.ndarray) -> dict[str, float]:
    held = np.maximum(probabilities, LEAST_PROBABILITY)
    held /= held.sum(axis=1, keepdims=True)
    return {"nll": round(float(nll(held, y)), 6), "ece": round(float(ece(held, y)), 6)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=5, help="seeds below 5 had a part in choosing the priors")
    parser.add_argument("--labels", type=int, nargs="*", default=[50, 100, 300], help="numbers of labelled rows")
    parser.add_argument("--out", type=Path, default=Path("results/calibrators.json"))
    asked = parser.parse_args()
    sizes = "" if asked.labels == [50, 100, 300] else f" --labels {' '.join(map(str, asked.labels))}"
    command = f"python benchmarks/calibrators.py --first-seed {asked.first_seed} --seeds {asked.seeds}{sizes}"
    stored: dict[str, Any] = json.loads(asked.out.read_text()) if asked.out.exists() else {"splits": []}
    stored |= {"command": command, "environment": environment()}
    done = {(split["table"], split["labels"], split["seed"]) for split in stored["splits"]}
    options = StudyOptions(methods=("svm",), seeds=asked.seeds, first_seed=asked.first_seed)
    cells = cells_of(RIVALS_STUDY.declare(RIVALS_STUDY.complete(options)))
    for cell in sorted(cells, key=lambda cell: (cell.seed, cell.n_train)):
        key = (cell.dataset, cell.n_train, cell.seed)
        if cell.n_train not in asked.labels or key in done:
            continue
        try:
            parts = split_of(cell)
        except InputError as error:
            print(f"{cell.dataset}: {error}")
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # networks that did not converge
            runs = measure(parts, cell.seed)
        stored["splits"].append(dict(zip(("table", "labels", "seed", "runs"), (*key, runs), strict=True)))
        asked.out.parent.mkdir(parents=True, exist_ok=True)
        write_json(asked.out, stored)
        gains = ", ".join(f"{run['base']} {_change(run):+.1f} % ({run['taken']})" for run in runs)
        print(f"{cell.dataset}, {cell.n_train} labels, seed {cell.seed}: auto {gains}", flush=True)


def _change(run: dict[str, Any]) -> float:
    return 100 * (run["scores"]["auto"]["nll"] / run["scores"]["none"]["nll"] - 1)


if __name__ == "__main__":
    main()
