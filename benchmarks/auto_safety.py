"""Is beta="auto" safe? Its test NLL against a standard ensemble that was itself stopped at the right time.

    python benchmarks/auto_safety.py --mnist FOLDER --out results/auto-safety.json

Settings that played no part in choosing the selection rule: wine, MNIST with 100 and 500 labels, and synthetic
"embeddings" (overlapping Gaussian classes in 128 dimensions with some mislabelled rows). FOLDER holds MNIST's four
original .gz files; without it MNIST is left out. Every finished run is written at once, and skipped when started
again. Both ensembles have ten members, the same seed, the same folds; only beta and the steps differ.
"""

from __future__ import annotations

import argparse
import gzip
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from sklearn.datasets import load_wine

import nu_ensembles as nu
from nu_ensembles.storage import write_json
from nu_ensembles.training.run_folder import environment

Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # X, y, U, test X, test y


def parts(x: np.ndarray, y: np.ndarray, n_labelled: int, n_unlabelled: int, seed: int) -> Arrays:
    sizes = {"labelled": n_labelled, "unlabelled": n_unlabelled, "test": None}
    rows = nu.datasets.split(len(x), sizes, seed, stratify=y)
    labelled, unlabelled, test = rows["labelled"], rows["unlabelled"], rows["test"][:5000]
    return x[labelled], y[labelled], x[unlabelled], x[test], y[test]


def wine(seed: int) -> Arrays:
    x, y = load_wine(return_X_y=True)
    return parts(np.asarray(x), np.asarray(y), 30, 78, seed)


def embeddings(seed: int) -> Arrays:
    rng = np.random.default_rng([seed, 7])
    centres = rng.normal(size=(10, 128)) * 0.22
    y = rng.integers(0, 10, 5200)
    x = (centres[y] + rng.normal(size=(5200, 128))).astype(np.float32)
    wrong = rng.random(5200) < 0.05
    y = np.where(wrong, rng.integers(0, 10, 5200), y)
    return parts(x, y, 200, 2000, seed)


def mnist(folder: Path, n_labelled: int) -> Callable[[int], Arrays]:
    def read(name: str, offset: int) -> np.ndarray:
        return np.frombuffer(gzip.decompress((folder / name).read_bytes()), np.uint8, offset=offset)

    x = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 784)
    y = read("train-labels-idx1-ubyte.gz", 8).astype(int)
    return lambda seed: parts(x, y, n_labelled, 2000, seed)


def one_run(arrays: Arrays, seed: int) -> dict[str, float]:
    x, y, u, x_test, y_test = arrays
    start = time.perf_counter()
    auto = nu.NuEnsembleClassifier(random_state=seed).fit(x, y, X_unlabeled=u)
    seconds = time.perf_counter() - start
    search = auto.search_
    assert search is not None

    def standard(steps: int) -> nu.Ensemble:
        """The standard ensemble on the same data and seed, trained for so many steps."""
        same_seed, scaled = auto.ensemble_.training["seed"], auto.ensemble_.standardisation is not None
        method = nu.methods.Standard()
        return nu.fit("mlp", x, y, u, method=method, steps=steps, seed=same_seed, standardize=scaled)

    scores = {}
    codes = np.searchsorted(auto.classes_, y_test)
    trained = {
        "auto": auto.ensemble_,
        "early_stopped": standard(search.standard_steps),
        "last_epoch": standard(int(search.steps[-1])),
    }
    for name, ensemble in trained.items():
        found = nu.metrics.evaluate(ensemble.predict_members(x_test), codes)
        scores |= {f"{name}_{metric}": float(found[metric]) for metric in ("nll", "accuracy", "ece")}
    return (
        {"beta": auto.beta_, "steps": auto.n_steps_, "standard_steps": search.standard_steps}
        | scores
        | {"seconds": seconds}
    )


def settings(mnist_folder: Path | None) -> Iterator[tuple[str, Callable[[int], Arrays]]]:
    yield "wine, 30 labels", wine
    yield "embeddings, 200 labels", embeddings
    if mnist_folder is not None:
        yield "MNIST, 100 labels", mnist(mnist_folder, 100)
        yield "MNIST, 500 labels", mnist(mnist_folder, 500)


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
    for name, load in settings(options.mnist):
        runs = found["runs"].setdefault(name, [])
        for seed in range(len(runs), options.seeds):
            runs.append({"seed": seed} | one_run(load(seed), seed))
            options.out.parent.mkdir(parents=True, exist_ok=True)
            write_json(options.out, found)
        print(f"{name}: {summary(runs)}", flush=True)
    everything = [run for runs in found["runs"].values() for run in runs]
    print(f"all: {summary(everything)}")


if __name__ == "__main__":
    main()
