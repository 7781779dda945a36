"""Is beta="auto" safe? Its test NLL against a standard ensemble that was itself stopped at the right time.

    python benchmarks/auto_safety.py --mnist FOLDER --out results/auto-safety.json

Settings that played no part in choosing the selection rule: wine, MNIST with 100 and 500 labels, and synthetic
"embeddings" (overlapping Gaussian classes in 128 dimensions with some mislabelled rows). FOLDER holds MNIST's original
.gz files; without it MNIST is left out. Every finished run is written at once, and skipped when started again. Both
ensembles have ten members, the same seed, the same folds; only beta and the steps differ. The study `auto-safety` has
more data sets, networks and seeds.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np

import nu_ensembles as nu
from nu_ensembles.storage import write_json
from nu_ensembles.training import environment
from nu_ensembles_studies.measure.auto_and_standard import AutoAndStandard
from nu_ensembles_studies.measure.parts import load_table, read_idx_images

# Name -> data set, labelled and unlabelled rows; at most so many of the others test.
SETTINGS = {
    "wine, 30 labels": ("wine", 30, 78),
    "embeddings, 200 labels": ("embeddings", 200, 2000),
    "MNIST, 100 labels": ("mnist", 100, 2000),
    "MNIST, 500 labels": ("mnist", 500, 2000),
}
MOST_TESTED = 5000


def one_run(dataset: str, n_labelled: int, n_unlabelled: int, seed: int, mnist: Path | None) -> dict[str, float]:
    x, y = load_table(dataset, seed, None) if mnist is None or dataset != "mnist" else read_idx_images(mnist)
    sizes = {"labelled": n_labelled, "unlabelled": n_unlabelled, "test": None}
    labelled, unlabelled, test = nu.datasets.split(len(x), sizes, seed, stratify=y).values()
    test = test[:MOST_TESTED]
    auto = nu.NuEnsembleClassifier(random_state=seed)
    compared = AutoAndStandard(auto, x[labelled], y[labelled], x[unlabelled], x[test])
    codes = np.searchsorted(auto.classes_, y[test])
    found = {"beta": auto.beta_, "steps": auto.n_steps_, "standard_steps": compared.search.standard_steps}
    members = {"auto": compared.chosen, "early_stopped": compared.early_stopped, "last_epoch": compared.last_epoch}
    for name, each in members.items():
        scores = nu.metrics.evaluate(each, codes)
        found |= {f"{name}_{metric}": float(scores[metric]) for metric in ("nll", "accuracy", "ece")}
    return found | {"seconds": compared.seconds}


def summary(runs: list[dict[str, float]]) -> str:
    change = np.array([run["auto_nll"] / run["early_stopped_nll"] - 1 for run in runs])
    last = np.array([run["auto_nll"] / run["last_epoch_nll"] - 1 for run in runs])
    betas = ", ".join(f"{run['beta']:g}" for run in runs)
    return (
        f"NLL against early-stopped {100 * change.mean():+.1f} % (worst {100 * change.max():+.1f}), against last epoch "
        f"{100 * last.mean():+.1f} %; worse by more than 1 %: {(change > 0.01).sum()} of {len(runs)}; beta {betas}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mnist", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("results/auto-safety.json"))
    options = parser.parse_args()
    found = json.loads(options.out.read_text()) if options.out.exists() else {"runs": {}}
    with_mnist = "--mnist FOLDER " if options.mnist else ""
    command = f"python benchmarks/auto_safety.py {with_mnist}--seeds {options.seeds}"
    found |= {"command": command, "environment": environment()}
    for name, setting in SETTINGS.items():
        if setting[0] == "mnist" and options.mnist is None:
            continue
        runs = found["runs"].setdefault(name, [])
        for seed in range(len(runs), options.seeds):
            runs.append({"seed": seed} | one_run(*setting, seed, options.mnist))
            options.out.parent.mkdir(parents=True, exist_ok=True)
            write_json(options.out, found)
        print(f"{name}: {summary(runs)}", flush=True)
    everything = [run for runs in found["runs"].values() for run in runs]
    print(f"all: {summary(everything)}")


if __name__ == "__main__":
    main()
