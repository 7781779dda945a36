"""What ramps are worth: test NLL of an early-stopped standard ensemble with and without them, on small tables.

    python benchmarks/table_inputs.py --folder FOLDER [--seeds 200 201] [--labels 50 100] --out FILE

FOLDER: see `small_tables.py`. Both networks see the same standardised rows, folds and seeds, and stop by their folds.
The knots, the bound and the limit of 60 columns were chosen on splits of the study `rivals` by the seeds 100 and 301.
Finished splits are kept in the file, and skipped when it is started again.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

import nu_ensembles as nu
import small_tables
from nu_ensembles.metrics import evaluate
from nu_ensembles.models.ramps import MOST_COLUMNS
from recording import Recording

MEMBERS = 5
VARIANTS = {"without": False, "ramps": True}
SHOWN = ("accuracy", "nll", "ece")


def scores(split: small_tables.Split, ramps: bool, seed: int) -> dict[str, float]:
    """Of one ensemble on the test rows, with the processor time that it took."""
    started = time.process_time()
    classifier = nu.EnsembleClassifier(
        "standard", MEMBERS, model_options={"ramps": ramps}, early_stopping=True, random_state=seed
    )
    classifier.fit(split.x, split.y, X_unlabeled=split.x_unlabeled)
    probabilities = classifier.predict_proba(split.x_test)
    seconds = time.process_time() - started
    found = evaluate(probabilities[None], np.searchsorted(classifier.classes_, split.y_test))
    steps = {"n_steps": classifier.n_steps_, "processor_seconds": round(seconds, 2)}
    return {name: round(float(found[name]), 5) for name in SHOWN} | steps


def summary(rows: list[dict[str, Any]]) -> None:
    """The mean change of the NLL, its interval over tables, and how often it is clear."""
    logs = np.array([np.log(row["ramps"]["nll"] / row["without"]["nll"]) for row in rows])
    tables = sorted({row["table"] for row in rows})
    means = np.array([np.mean([log for log, row in zip(logs, rows, strict=True) if row["table"] == t]) for t in tables])
    error = 1.96 * means.std(ddof=1) / len(means) ** 0.5
    print(
        f"{len(rows)} splits: NLL {100 * means.mean():+.1f} ± {100 * error:.1f} %; lower by 2 % on "
        f"{(logs < -0.02).sum()}, higher on {(logs > 0.02).sum()}"
    )
    for table, mean in zip(tables, means, strict=True):
        print(f"  {table:15s} {100 * np.expm1(mean):+.1f} %")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=os.environ.get("NU_ENSEMBLES_TABLES", "."))
    parser.add_argument("--seeds", type=int, nargs=2, default=(200, 201), help="first and last but one")
    parser.add_argument("--labels", type=int, nargs="+", default=(50, 100))
    parser.add_argument("--out", type=Path, default=Path("results/table-inputs.json"))
    options = parser.parse_args()
    command = "python benchmarks/table_inputs.py --folder FOLDER"
    recording = Recording("table-inputs", command, ("table", "budget", "seed"), options.out)
    for name, budget, seed in small_tables.splits(small_tables.NAMES, options.labels, range(*options.seeds)):
        key = {"table": name, "budget": budget, "seed": seed}
        if any(key.items() <= row.items() for row in recording.rows):
            continue
        split = small_tables.split_of(name, options.folder, budget, seed)
        # Images' rows and those of more than 60 columns get no ramps.
        if split is None or name == "mnist" or np.shape(split.x)[1] > MOST_COLUMNS:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            recording.add(key | {variant: scores(split, ramps, seed) for variant, ramps in VARIANTS.items()})
    summary(recording.rows)


if __name__ == "__main__":
    main()
