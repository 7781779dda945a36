"""Where does a fixed beta help on digits? Test scores over beta, steps, learning rate and unlabelled batch.

    python benchmarks/digits_beta_map.py --seeds 20 --out results/digits-beta-map.json

50 stratified labels, 800 unlabelled rows, the rest test, pixels in [0, 1], MLP 64-64, ten members, another split for
every seed. Every (rate, unlabelled batch, beta) is one trajectory, scored at several steps; beta = 0 is the standard
ensemble. These are test scores: a map to read, not a way to choose beta.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import numpy as np

import nu_ensembles as nu
from nu_ensembles.training.run_folder import environment

BETAS = (0.0, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2)
RATES = (1e-3, 3e-3)
UNLABELED_BATCHES = (32, 256)
EVERY, STEPS = 100, 1200
METRICS = ("accuracy", "nll", "ece", "mutual_information")


def trajectory(seed: int, rate: float, unlabeled_batch: int, beta: float) -> list[dict[str, float]]:
    pixels, labels = nu.datasets.load_digits()
    rows = nu.datasets.split(len(pixels), {"labelled": 50, "unlabelled": 800, "test": None}, seed, stratify=labels)
    x = {name: pixels[part] / 16 for name, part in rows.items()}
    ensemble = nu.fit(
        "mlp",
        x["labelled"],
        labels[rows["labelled"]],
        x["unlabelled"],
        nu.methods.Nu(beta=beta),
        seed=seed,
        steps=STEPS,
        learning_rate=rate,
        unlabeled_batch_size=unlabeled_batch,
        validation=(x["test"], labels[rows["test"]]),
        evaluate_every=EVERY,  # 50 labels are one batch of 32 and a rest: a pass is a step
    )
    return [{name: row[name] for name in METRICS} for row in ensemble.history]


def _with_change(row: dict[str, float], name: str) -> str:
    change, error = row[f"{name}_change"], row[f"{name}_change_error"]
    return f"{name} {row[name]:.3f} ({change:+.4f} ± {error:.4f})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path("results/digits-beta-map.json"))
    options = parser.parse_args()
    start = time.perf_counter()
    rows = []
    for rate in RATES:
        for unlabeled_batch in UNLABELED_BATCHES:
            standard: np.ndarray | None = None
            for beta in BETAS:
                runs = [trajectory(seed, rate, unlabeled_batch, beta) for seed in range(options.seeds)]
                scores = np.array([[[row[name] for name in METRICS] for row in run] for run in runs])
                standard = scores if standard is None else standard
                paired = scores - standard
                error = paired.std(axis=0, ddof=1) / len(runs) ** 0.5
                for stop in range(scores.shape[1]):
                    row = {"rate": rate, "unlabeled_batch": unlabeled_batch, "beta": beta, "steps": (stop + 1) * EVERY}
                    for m, name in enumerate(METRICS):
                        row[name] = scores[:, stop, m].mean()
                        row[f"{name}_change"] = paired[:, stop, m].mean()
                        row[f"{name}_change_error"] = error[stop, m]
                    rows.append(row)
                    if (stop + 1) * EVERY in (200, 300, 600, 1000, 1200):
                        print(
                            f"rate {rate:g} u-batch {unlabeled_batch} beta {beta:g} steps {row['steps']}: "
                            + "  ".join(_with_change(row, name) for name in METRICS[:3]),
                            flush=True,
                        )
            about = {"command": "python benchmarks/digits_beta_map.py", "seeds": options.seeds}
            about |= {"environment": environment(), "seconds": time.perf_counter() - start}
            options.out.parent.mkdir(parents=True, exist_ok=True)
            options.out.write_text(json.dumps(about | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()
