"""What MC dropout costs in accuracy against one network, by its rate and its number of masks.

    python benchmarks/mc_dropout.py [--splits 100] [--quick] [--out FILE]

Digits, MLP 64-64, 50 labels and 300 steps or 128 labels and 400, a new split and initialisation each time. The masks of
a smaller number are the first ones of a larger. Differences are paired, with their standard errors over splits.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import nu_ensembles as nu
from nu_ensembles.methods import McDropout, Single
from recording import Recording

SETTINGS = ((50, 300), (128, 400))
RATES = (0.02, 0.05, 0.1, 0.2)
MASKS = (10, 30, 100)


def measured(n_labels: int, steps: int, seed: int) -> dict[tuple[float, int], tuple[float, float]]:
    """Accuracy and NLL of every rate and number of masks; those of the single network at (0, 1)."""
    x, y = nu.datasets.load_digits()
    rows = nu.datasets.split(len(x), {"labelled": n_labels, "test": None}, seed, stratify=y)
    labelled, test = rows["labelled"], rows["test"]

    def members(method: Any, n_members: int) -> np.ndarray:
        ensemble = nu.fit(
            nu.models.mlp(10), x[labelled] / 16, y[labelled], method=method, n_members=n_members, steps=steps, seed=seed
        )
        return ensemble.predict_members(x[test] / 16)

    def scores(members: np.ndarray) -> tuple[float, float]:
        return nu.metrics.accuracy(members, y[test]), nu.metrics.nll(members, y[test])

    found = {(0.0, 1): scores(members(Single(), 1))}
    for rate in RATES:
        masked = members(McDropout(dropout=rate), max(MASKS))
        found |= {(rate, n_masks): scores(masked[:n_masks]) for n_masks in MASKS}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--splits", type=int, default=100)
    parser.add_argument("--quick", action="store_true", help="three splits")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    n_splits = 3 if options.quick else options.splits
    key = ("labels", "rate", "masks")
    recording = Recording("mc-dropout", "python benchmarks/mc_dropout.py", key, options.out, options.quick)
    for n_labels, steps in SETTINGS:
        runs = [measured(n_labels, steps, seed) for seed in range(n_splits)]
        for rate, n_masks in runs[0]:
            change = np.array([run[rate, n_masks] for run in runs]) - [run[0.0, 1] for run in runs]
            mean, error = change.mean(axis=0), change.std(axis=0, ddof=1) / n_splits**0.5
            row = {"labels": n_labels, "steps": steps, "rate": rate, "masks": n_masks, "splits": n_splits}
            of_metrics = zip(("accuracy", "nll"), mean, error, strict=True)
            recording.add(row | {name: [float(m), float(e)] for name, m, e in of_metrics})
            print(
                f"{n_labels:4d} labels, rate {rate:.2f}, {n_masks:3d} masks: accuracy {100 * mean[0]:+.2f} ± "
                f"{100 * error[0]:.2f} points, NLL {mean[1]:+.4f} ± {error[1]:.4f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
