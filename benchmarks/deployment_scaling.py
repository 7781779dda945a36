"""Which rows columns should be standardised over where the unlabelled ones differ: a standard ensemble, stopped early.

    NU_ENSEMBLES_DATA=FOLDER python benchmarks/deployment_scaling.py [--seed 61] [--out FILE]

Labels from one place, test rows from another (`nu_ensembles_studies.shifts`: tables parted by cluster, column and first
component), 100 labels, perceptrons of 64-64, five members. Moments over the labelled rows alone, over both sets as they
are, and over both with equal weight; each as it is and with what lies far out drawn in, x / √(1 + (x / 3)²). Rows that
the file holds are not measured again.
"""

from __future__ import annotations

import argparse
import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
KINDS = (".cluster", ".column", ".component-1")
N_LABELS, N_MEMBERS = 100, 5
DRAWN_IN = 3.0


def drawn_in(x: np.ndarray) -> np.ndarray:
    return x / np.sqrt(1 + (x / DRAWN_IN) ** 2)


def measured(shift: str, seed: int) -> dict[str, Any]:
    """Scores of every way on deployment rows, and the NLL on source rows."""
    import nu_ensembles as nu
    from nu_ensembles.problem.preprocessing import Standardisation
    from nu_ensembles_studies import shifts

    warnings.simplefilter("ignore")
    rows = shifts.load(shift, seed, N_LABELS)
    x, u = rows.x.astype(np.float64), rows.x_unlabeled.astype(np.float64)
    indicators = np.logical_and(*(((part == 0) | (part == 1)).all(axis=0) for part in (x, u)))
    # The smaller set so many times that both weigh about the same.
    times = max(1, round(len(u) / len(x))), max(1, round(len(x) / len(u)))
    sets = {
        "labelled rows": (x,),
        "both": (x, u),
        "both, equal weight": (x.repeat(times[0], axis=0), u.repeat(times[1], axis=0)),
    }
    found: dict[str, Any] = {"shift": shift, "seed": seed, "ways": {}}
    for name, parts in sets.items():
        scaling = Standardisation.fit(*parts, as_they_are=indicators)
        ways: dict[str, Callable[[np.ndarray], np.ndarray]] = {
            name: lambda part, scaling=scaling: scaling(part),
            f"{name}, drawn in": lambda part, scaling=scaling: drawn_in(scaling(part)).astype(np.float32),
        }
        for way, scale in ways.items():
            how: dict[str, Any] = {"max_iter": 300, "model_options": {"hidden": (64, 64)}, "random_state": seed}
            classifier = nu.EnsembleClassifier("standard", N_MEMBERS, early_stopping=True, standardize=False, **how)
            classifier.fit(scale(x), rows.y)
            there = nu.metrics.evaluate(classifier.predict_members(scale(rows.x_test)), rows.y_test)
            here = nu.metrics.evaluate(classifier.predict_members(scale(rows.x_source_test)), rows.y_source_test)
            scores = {metric: there[metric] for metric in ("nll", "ece", "accuracy")}
            found["ways"][way] = {**scores, "source_nll": here["nll"]}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=61)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "deployment-scaling.json")
    options = parser.parse_args()
    from nu_ensembles import storage
    from nu_ensembles.training import environment
    from nu_ensembles_studies import shifts

    rows = json.loads(options.out.read_text(encoding="utf-8"))["rows"] if options.out.exists() else []
    there = {(row["shift"], row["seed"]) for row in rows}
    about = {"command": "python benchmarks/deployment_scaling.py", "n_labels": N_LABELS, "environment": environment()}
    for name in shifts.names():
        # Pixels are not standardised, and what stands for an image hardly moves.
        wanted = name.endswith(KINDS) and not name.startswith(("digits.", "cifar10_hog.")) and shifts.available(name)
        if wanted and (name, options.seed) not in there:
            rows.append(measured(name, options.seed))
            storage.write_json(options.out, {**about, "rows": sorted(rows, key=lambda r: (r["seed"], r["shift"]))})
            print(f"{len(rows)} measured, the last {name}", flush=True)


if __name__ == "__main__":
    main()
