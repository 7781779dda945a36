"""What a fit costs where the unlabelled rows differ, against one with unlabelled rows from where the labels are from.

    NU_ENSEMBLES_DATA=FOLDER python benchmarks/deployment_cost.py [--seed 81] [--out FILE]

Processor seconds of the default classifier (ten perceptrons of 64-64) on 100 labels of two tables: its first fit in a
process of its own, compilation included, and a second one with the next seed.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import multiprocessing
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SHIFTS = ("vehicle.cluster", "german.column")
N_LABELS = 100


def measured(shift: str, seed: int, differs: bool) -> dict[str, Any]:
    """Seconds of two fits, and what they chose."""
    import nu_ensembles as nu
    from nu_ensembles_studies import shifts

    warnings.simplefilter("ignore")
    found: dict[str, Any] = {"shift": shift, "differs": differs, "seconds": [], "betas": []}
    for each in (seed, seed + 1):
        rows = shifts.load(shift, each, N_LABELS)
        u = rows.x_unlabeled if differs else rows.x_source_test
        started = time.process_time()
        classifier = nu.NuEnsembleClassifier(random_state=each).fit(rows.x, rows.y, X_unlabeled=u)
        found["seconds"].append(time.process_time() - started)
        found["betas"].append(classifier.beta_)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=81)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "deployment-cost.json")
    options = parser.parse_args()
    from nu_ensembles import storage
    from nu_ensembles.training import environment

    found = []
    for shift in SHIFTS:
        for differs in (False, True):
            # A process of its own each: nothing is compiled yet.
            with concurrent.futures.ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as alone:
                found.append(alone.submit(measured, shift, options.seed, differs).result())
            print(found[-1], flush=True)
    about = {"command": "python benchmarks/deployment_cost.py", "n_labels": N_LABELS, "environment": environment()}
    storage.write_json(options.out, {**about, "fits": found})


if __name__ == "__main__":
    main()
