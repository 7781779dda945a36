"""How to scale columns that are mostly zero: test NLL at the best step of a standard ensemble, a scaling a column.

    python benchmarks/zeros_scaling.py [--folder FOLDER] [--seeds 5] [--only words] [--out FILE]

TF-IDF and counts of words are those of docstrings, by package; every installation has them. FOLDER may hold tables as
.npz files (dna, german, spam: X and y). Takes about four minutes on two cores.
"""

from __future__ import annotations

import argparse
import ast
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer

import nu_ensembles as nu
from nu_ensembles.problem import Standardisation
from recording import Recording

PACKAGES = ("numpy", "scipy", "sklearn", "jax", "matplotlib")
MOST_TEXTS, MOST_WORDS = 600, 80
N_TEST = 1500
Scaling = tuple[np.ndarray, np.ndarray]


def docstrings() -> tuple[list[str], np.ndarray]:
    """Beginnings of long docstrings, and the package that each is from."""
    texts: list[str] = []
    labels: list[str] = []
    for package in PACKAGES:
        found = importlib.util.find_spec(package)
        assert found is not None
        assert found.origin is not None
        own: set[str] = set()
        for path in sorted(Path(found.origin).parent.rglob("*.py")):
            if "test" not in str(path):
                own.update(_docstrings_in(path))
        chosen = sorted(own)
        np.random.default_rng(0).shuffle(chosen)
        texts += chosen[:MOST_TEXTS]
        labels += [package] * len(chosen[:MOST_TEXTS])
    return texts, np.array(labels)


def _docstrings_in(path: Path) -> list[str]:
    try:
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    except (SyntaxError, UnicodeDecodeError):
        return []
    texts = [ast.get_docstring(node) or "" for node in nodes if isinstance(node, ast.FunctionDef | ast.ClassDef)]
    return [" ".join(text.split()[:MOST_WORDS]) for text in texts if len(text) > 150]


def data_sets(folder: Path | None) -> dict[str, Callable[[], tuple[np.ndarray, np.ndarray, int]]]:
    """Rows, labels and how many of them are labelled, by name."""

    def words(vectorizer: CountVectorizer) -> tuple[np.ndarray, np.ndarray, int]:
        texts, labels = docstrings()
        return vectorizer.fit_transform(texts).toarray().astype(float), labels, 300

    def digits() -> tuple[np.ndarray, np.ndarray, int]:
        pixels, labels = nu.datasets.load_digits()
        return pixels.reshape(len(pixels), -1).astype(float), labels, 100

    def of_file(path: Path) -> tuple[np.ndarray, np.ndarray, int]:
        with np.load(path) as arrays:
            return arrays["X"], arrays["y"], 300

    found = {
        "words, TF-IDF": lambda: words(TfidfVectorizer(max_features=4000, sublinear_tf=True)),
        "words, counts": lambda: words(CountVectorizer(max_features=2000)),
        "digits": digits,
    }
    paths = [] if folder is None else [folder / f"{name}.npz" for name in ("dna", "german", "spam")]
    return found | {path.stem: (lambda path=path: of_file(path)) for path in paths if path.exists()}


def scalings(x: np.ndarray) -> dict[str, Scaling]:
    """Mean and scale `[F]` by each rule."""
    mean, deviation = x.mean(axis=0), x.std(axis=0)
    deviation = np.where(deviation > 0, deviation, 1.0)
    mostly_zero = (x != 0).mean(axis=0) < 0.5
    size = np.sqrt(np.square(x).sum(axis=0) / np.maximum((x != 0).sum(axis=0), 1))
    size = np.where(size > 0, size, 1.0)
    ours = Standardisation.fit(x)
    return {
        "centred, by deviation": (mean, deviation),
        "by deviation": (np.where(mostly_zero, 0.0, mean), deviation),
        "by size": (np.where(mostly_zero, 0.0, mean), np.where(mostly_zero, size, deviation)),
        "by both (ours)": (ours.mean, ours.scale),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=os.environ.get("NU_ENSEMBLES_TABLES"))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", default="", help="data sets whose name contains this")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    command = f"python benchmarks/zeros_scaling.py --seeds {options.seeds}"
    recording = Recording("zeros-scaling", command, ("data", "scaling"), options.out)
    for name, load in data_sets(options.folder).items():
        if options.only not in name:
            continue
        x, y, n_labelled = load()
        for scaling, (mean, scale) in scalings(x).items():
            scaled = ((x - mean) / scale).astype(np.float32)
            best = [_best(scaled, y, n_labelled, seed) for seed in range(options.seeds)]
            nll, accuracy = (float(np.mean([run[score] for run in best])) for score in ("nll", "accuracy"))
            recording.add({"data": name, "scaling": scaling, "nll": nll, "accuracy": accuracy, "runs": best})
            print(f"{name:14s} {scaling:22s} NLL {nll:.3f}, accuracy {accuracy:.3f}", flush=True)


def _best(x: np.ndarray, y: np.ndarray, n_labelled: int, seed: int) -> dict[str, float]:
    """Scores on test rows at the step with the least NLL there: what the scaling allows, however long that takes."""
    order = np.random.default_rng(seed).permutation(len(x))
    train, test = order[:n_labelled], order[n_labelled : n_labelled + N_TEST]
    ensemble = nu.fit(
        "mlp",
        x[train],
        y[train],
        method="standard",
        n_members=3,
        seed=seed,
        validation=(x[test], y[test]),
        evaluate_every=3,
    )
    row = min(ensemble.history, key=lambda row: row["nll"])
    return {name: float(row[name]) for name in ("nll", "accuracy", "step")}


if __name__ == "__main__":
    main()
