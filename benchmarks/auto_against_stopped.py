"""NuEnsembleClassifier() against an early-stopped standard ensemble: test NLL and processor time, on small tables.

    python benchmarks/auto_against_stopped.py --folder FOLDER --seeds 0 5 --out results/auto-against-stopped.json

FOLDER: see `small_tables.py`. Both are fitted with their defaults on the same rows and seed. Where auto takes beta = 0
they are the same ensemble to the last bit (`tests/estimator/test_auto_is_standard.py`), so only where it takes another
beta a second one is trained for its NLL; the times are measured on the splits of the first seed, in turns, when all
programs are compiled. Finished splits are kept in the file, and skipped when it is started again.
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
from recording import Recording


def fitted(classifier: Any, split: small_tables.Split) -> tuple[Any, float]:
    """The classifier on a split, and the processor seconds of all threads."""
    start = time.process_time()
    classifier.fit(split.x, split.y, X_unlabeled=split.x_unlabeled)
    return classifier, time.process_time() - start


def scores(classifier: Any, split: small_tables.Split) -> dict[str, float]:
    codes = np.searchsorted(classifier.classes_, split.y_test)
    found = nu.metrics.evaluate(classifier.predict_members(split.x_test), codes)
    return {name: float(found[name]) for name in ("nll", "accuracy", "ece")}


def auto_of(seed: int) -> nu.NuEnsembleClassifier:
    return nu.NuEnsembleClassifier(random_state=seed)


def standard_of(seed: int) -> nu.EnsembleClassifier:
    return nu.EnsembleClassifier("standard", early_stopping=True, random_state=seed)


def one_split(split: small_tables.Split, seed: int, timed: bool) -> dict[str, Any]:
    auto, _ = fitted(auto_of(seed), split)
    found: dict[str, Any] = {"beta": auto.beta_, "n_steps": auto.n_steps_, "auto": scores(auto, split)}
    found["tried"] = sorted({float(beta) for beta in auto.cv_results_["beta"]})
    found["standard"] = found["auto"]
    if auto.beta_ > 0:
        found["standard"] = scores(fitted(standard_of(seed), split)[0], split)
    if timed:
        fitted(standard_of(seed), split)  # compiles what auto has not
        turns = [(fitted(auto_of(seed), split)[1], fitted(standard_of(seed), split)[1]) for _ in range(2)]
        found["seconds"] = dict(zip(("auto", "standard"), np.min(turns, axis=0).tolist(), strict=True))
    return found


def summary(runs: list[dict[str, Any]]) -> str:
    change = np.array([run["auto"]["nll"] / run["standard"]["nll"] - 1 for run in runs])
    taken = [run for run in runs if run["beta"] > 0]
    ratios = np.array([run["seconds"]["auto"] / run["seconds"]["standard"] for run in runs if "seconds" in run])
    at_zero = [run for run in runs if "seconds" in run and run["beta"] == 0]
    at_zero = np.array([run["seconds"]["auto"] / run["seconds"]["standard"] for run in at_zero])
    told = (
        f"{len(runs)} splits: beta > 0 on {len(taken)}; NLL {100 * change.mean():+.2f} % on average, worst "
        f"{100 * change.max():+.1f}, best {100 * change.min():+.1f}; worse by more than 2 %: {(change > 0.02).sum()}"
    )
    if len(at_zero):
        told += (
            f"; processor time {np.median(ratios):.2f} times as much (median; at beta = 0 {np.median(at_zero):.2f}, at "
            f"most {at_zero.max():.2f})"
        )
    return told


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=os.environ.get("NU_ENSEMBLES_TABLES", "."))
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 5), help="first and last but one")
    parser.add_argument("--budgets", type=int, nargs="+", default=small_tables.BUDGETS)
    parser.add_argument("--only", default="", help="tables whose name contains this")
    parser.add_argument("--untimed", action="store_true", help="measure no times")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    seeds = range(*options.seeds)
    names = tuple(name for name in small_tables.NAMES if options.only in name)
    command = "python benchmarks/auto_against_stopped.py --folder FOLDER"
    recording = Recording("auto-against-stopped", command, ("table", "budget", "seed"), options.out)
    runs = []
    for name, budget, seed in small_tables.splits(names, tuple(options.budgets), seeds):
        key = {"table": name, "budget": budget, "seed": seed}
        found = next((row for row in recording.rows if key.items() <= row.items()), None)
        if found is None:
            split = small_tables.split_of(name, options.folder, budget, seed)
            if split is None:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                found = one_split(split, seed, seed == seeds.start and not options.untimed)
            recording.add(key | found)
            print(key, found, flush=True)
        runs.append(found)
    print(summary(runs))


if __name__ == "__main__":
    main()
