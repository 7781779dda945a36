"""Whole fits under shifts: what a user gets by one call, against the standard ensemble that stops early.

    NU_ENSEMBLES_DATA=FOLDER python benchmarks/deployment_fits.py [--seed 43] [--processes 2] [--out FILE]

Labels from one place, unlabelled and test rows from another (`nu_ensembles_studies.shifts`), 100 labels, perceptrons of
64-64, five members. Three classifiers on the same rows: the standard ensemble with the labelled rows alone, the same
standardised over the unlabelled rows, too, and nu (auto). The tables are parted along drawn directions and around drawn
rows, which no rule for beta had seen, and digits are corrupted in six ways. Rows that the file holds are not measured
again.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import time
import warnings
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
CORRUPTIONS = ("brightness-5", "contrast-3", "fog-3", "frost-3", "pixelate-5", "snow-3")
N_LABELS, N_MEMBERS = 100, 5
HOW: dict[str, Any] = {"model_options": {"hidden": (64, 64)}, "max_iter": 300}


def wanted() -> list[str]:
    """The shifts whose data are at hand."""
    from nu_ensembles_studies import shifts

    parted = sorted(name for name in shifts.names() if name.endswith((".direction", ".neighbourhood")))
    return [name for name in (*parted, *(f"digits.{each}" for each in CORRUPTIONS)) if shifts.available(name)]


def measured(shift: str, seed: int) -> dict[str, Any]:
    """A row of the results: scores of the three classifiers on deployment rows and on source rows."""
    import nu_ensembles as nu
    from nu_ensembles_studies import shifts

    warnings.simplefilter("ignore")
    rows = shifts.load(shift, seed, N_LABELS)
    standard = {"method": "standard", "n_members": N_MEMBERS, "early_stopping": True, "random_state": seed, **HOW}
    fits = {
        "labelled rows alone": (nu.EnsembleClassifier(**standard), None),
        "standardised over both": (nu.EnsembleClassifier(**standard), rows.x_unlabeled),
        "nu": (nu.NuEnsembleClassifier(N_MEMBERS, random_state=seed, **HOW), rows.x_unlabeled),
    }
    row: dict[str, Any] = {"shift": shift, "seed": seed, "classifiers": {}}
    for name, (classifier, unlabeled) in fits.items():
        started = time.process_time()
        classifier.fit(rows.x, rows.y, X_unlabeled=unlabeled)
        seconds = time.process_time() - started
        there = nu.metrics.evaluate(classifier.predict_proba(rows.x_test)[None], rows.y_test)
        here = nu.metrics.evaluate(classifier.predict_proba(rows.x_source_test)[None], rows.y_source_test)
        scores = {metric: there[metric] for metric in ("nll", "ece", "accuracy")}
        row["classifiers"][name] = {**scores, "source_nll": here["nll"], "processor_seconds": seconds}
    found = fits["nu"][0]
    row["beta"], row["differs"] = found.beta_, found.shift_ is not None and bool(found.shift_.differs)
    expected = found.expected_
    row["expected"] = None if expected is None else [expected.accuracy, expected.low, expected.high]
    return row


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=43)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "deployment-fits.json")
    options = parser.parse_args()
    from nu_ensembles import storage
    from nu_ensembles.training import environment

    rows = json.loads(options.out.read_text(encoding="utf-8"))["rows"] if options.out.exists() else []
    there = {(row["shift"], row["seed"]) for row in rows}
    missing = [name for name in wanted() if (name, options.seed) not in there]
    about = {"command": "python benchmarks/deployment_fits.py", "n_labels": N_LABELS, "environment": environment()}
    context = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(options.processes, mp_context=context) as pool:
        for future in concurrent.futures.as_completed([pool.submit(measured, name, options.seed) for name in missing]):
            rows.append(future.result())
            storage.write_json(options.out, {**about, "rows": sorted(rows, key=lambda r: (r["seed"], r["shift"]))})
            print(f"{len(rows)} measured, the last {rows[-1]['shift']}", flush=True)


if __name__ == "__main__":
    main()
