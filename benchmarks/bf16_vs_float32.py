"""Does bfloat16 change what is learnt? CIFAR-10, 1,000 labels, published networks and hyper-parameters, both dtypes.

    python benchmarks/bf16_vs_float32.py --data-dir FOLDER [--only lenet] [--epochs 30] [--quick] [--out FILE]

The published rows train and test (nu, beta 0.01, ten members, test set of 10,000); a seed gives both dtypes the same
initialisation, batches and random labels. A combination that the file of results holds is not trained again, and none
is started after `--limit` seconds, so that long ones can be spread over several calls. `--write-subset FILE.npz`
writes the 16,000 images that are needed, for a machine that cannot hold the whole set; such a file may take the place
of the folder.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

import nu_ensembles as nu
from recording import Recording

DTYPES, SCORES = ("float32", "bfloat16"), ("accuracy", "ece", "nll")
# Learning rate, epochs, options of the network, all as published.
NETWORKS: dict[str, tuple[float, int, dict[str, Any]]] = {
    "lenet": (1e-3, 100, {}),
    "wrn-22-4": (1e-3, 350, {"shared_dropout": True}),
}
N_LABELLED, BETA, N_MEMBERS = 1000, 0.01, 10


def images(place: Path) -> dict[str, np.ndarray]:
    """Labelled, unlabelled and test images with the labels of the first and the last."""
    if place.suffix == ".npz":
        with np.load(place, allow_pickle=False) as stored:
            return dict(stored)
    from nu_ensembles.datasets.cifar import load_cifar10
    from nu_ensembles.datasets.splits import published_split

    whole = load_cifar10(place, may_download=False)
    rows = published_split(len(whole.train_images), N_LABELLED)
    return {
        "x": whole.train_images[rows["train"]],
        "y": whole.train_labels[rows["train"]],
        "u": whole.train_images[rows["unlabeled"]],
        "test_x": np.asarray(whole.test_images),
        "test_y": np.asarray(whole.test_labels),
    }


def scores(
    name: str, dtype: str, seed: int, epochs: int, n_members: int, data: dict[str, np.ndarray]
) -> dict[str, float]:
    rate, _, options = NETWORKS[name]
    model = nu.models.build(name, 10, dtype=dtype, **options)
    start = time.perf_counter()
    ensemble = nu.fit(
        model,
        data["x"],
        data["y"],
        data["u"],
        method=nu.methods.Nu(BETA),
        n_members=n_members,
        epochs=epochs,
        seed=seed,
        learning_rate=rate,
        augment="flip_crop",
    )
    found = nu.metrics.evaluate(ensemble.predict_members(data["test_x"]), data["test_y"])
    return {score: float(found[score]) for score in SCORES} | {"seconds": time.perf_counter() - start}


def summary(rows: list[dict[str, Any]], name: str, epochs: int) -> str:
    """Mean and spread over seeds in both dtypes, and the difference of pairs."""
    by = {(row["dtype"], row["seed"]): row for row in rows if (row["network"], row["epochs"]) == (name, epochs)}
    seeds = sorted(seed for dtype, seed in by if dtype == "float32" and ("bfloat16", seed) in by)
    if not seeds:
        return f"{name}, {epochs} epochs: no seed in both dtypes yet"
    lines = [f"{name}, {epochs} epochs, {len(seeds)} seeds"]
    for score in SCORES:
        full, half = (np.array([by[dtype, seed][score] for seed in seeds]) for dtype in DTYPES)
        noise = full.std(ddof=1) if len(seeds) > 1 else float("nan")
        lines.append(
            f"    {score:9s} float32 {full.mean():.4f}, bfloat16 {half.mean():.4f}; difference "
            f"{(half - full).mean():+.4f} against a spread of {noise:.4f} over seeds"
        )
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--only", choices=NETWORKS, help="one network")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--epochs", type=int, help="instead of the published number")
    parser.add_argument("--members", type=int, default=N_MEMBERS)
    parser.add_argument("--limit", type=float, default=60.0, help="seconds after which nothing new is started")
    parser.add_argument("--quick", action="store_true", help="one epoch, one seed, two members, few test images")
    parser.add_argument("--write-subset", type=Path, help="write the images to this file and stop")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    data = images(options.data_dir)
    if options.write_subset:
        np.savez_compressed(options.write_subset, **data)
        return
    if options.quick:
        options.epochs, options.seeds, options.members = 1, [0], 2
        data = {field: rows[:200] if field.startswith("test") else rows for field, rows in data.items()}
    key = ("network", "epochs", "seed", "dtype")
    about = {"members": options.members, "labels": N_LABELLED, "beta": BETA, "test_rows": len(data["test_y"])}
    command = "python benchmarks/bf16_vs_float32.py"
    recording = Recording("bf16-vs-float32", command, key, options.out, options.quick, **about)
    until = time.perf_counter() + options.limit
    for name in [options.only] if options.only else NETWORKS:
        epochs = options.epochs or NETWORKS[name][1]
        for seed in options.seeds:
            for dtype in DTYPES:
                row = dict(zip(key, (name, epochs, seed, dtype), strict=True))
                if any(all(done[field] == row[field] for field in key) for done in recording.rows):
                    continue
                if time.perf_counter() > until:
                    print(f"{name}, seed {seed}, {dtype}: left for another call", flush=True)
                    continue
                found = scores(name, dtype, seed, epochs, options.members, data)
                recording.add(row | found)
                shown = ", ".join(f"{score} {found[score]:.4f}" for score in SCORES)
                print(f"{name}, seed {seed}, {dtype}: {shown} ({found['seconds']:.1f} s)", flush=True)
        print(summary(recording.rows, name, epochs), flush=True)


if __name__ == "__main__":
    main()
