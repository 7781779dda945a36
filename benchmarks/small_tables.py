"""Small real tables, and splits of them with few labels: what the benchmarks of choices are run on.

scikit-learn's digits, wine, breast cancer and iris come with the package. FOLDER may hold vehicle, letter, dna, pima,
spam, german, cellseg and cifar10_hog as `.npz` with `X` and `y`, `mixed/` with income, soybean, scat and penguins as
`.csv`, and `mnist-5k.npz` beside it; what is not there is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

import nu_ensembles as nu
from nu_ensembles.datasets.files import read_table

MIXED = {"income": "INCOME", "soybean": "Class", "scat": "Species", "penguins": "species"}
ARRAYS = ("pima", "vehicle", "german", "cellseg", "dna", "spam", "letter", "cifar10_hog")
BUNDLED = {"iris": load_iris, "wine": load_wine, "breast_cancer": load_breast_cancer}
NAMES = (*BUNDLED, "digits", *MIXED, *ARRAYS, "mnist")
BUDGETS = (50, 100, 300)
MOST_UNLABELLED, MOST_TESTED, SHARE_TESTED, FEWEST_UNLABELLED = 1000, 1500, 0.4, 30


class Split(NamedTuple):
    """Rows of a table; every class has two labelled rows."""

    x: Any
    y: np.ndarray
    x_unlabeled: Any
    x_test: Any
    y_test: np.ndarray


def table(name: str, folder: Path) -> tuple[Any, np.ndarray] | None:
    """Rows and labels; None if they are not on this machine."""
    if name in BUNDLED:
        data = BUNDLED[name]()
        return data.data.astype(np.float32), data.target  # pyright: ignore[reportAttributeAccessIssue]
    if name == "digits":
        x, y = nu.datasets.load_digits()
        return x.astype(np.float32), y
    if name in MIXED:
        path = folder / "mixed" / f"{name}.csv"
        if not path.exists():
            return None
        found = read_table(path, MIXED[name])
        return found.X, np.asarray(found.y).astype(str)
    path = folder.parent / "mnist-5k.npz" if name == "mnist" else folder / f"{name}.npz"
    if not path.exists():
        return None
    with np.load(path, allow_pickle=False) as arrays:
        if name == "mnist":
            images = arrays["images"]
            return images.reshape(len(images), -1) / np.float32(255), arrays["labels"]
        return arrays["X"], arrays["y"]


def split_of(name: str, folder: Path, budget: int, seed: int) -> Split | None:
    """A split with so many labels; None if the table is too small for it, or not there."""
    found = table(name, folder)
    if found is None:
        return None
    x, y = found
    n_test = min(MOST_TESTED, int(SHARE_TESTED * len(y)))
    n_unlabelled = min(MOST_UNLABELLED, len(y) - n_test - budget)
    if n_unlabelled < FEWEST_UNLABELLED:
        return None
    sizes = {"labelled": budget, "unlabelled": n_unlabelled, "test": n_test}
    rows = nu.datasets.split(len(y), sizes, seed=seed, stratify=y)
    classes, counts = np.unique(y[rows["labelled"]], return_counts=True)
    kept = {part: of_part[np.isin(y[of_part], classes[counts > 1])] for part, of_part in rows.items()}
    labelled, unlabelled, test = kept.values()
    return Split(x[labelled], y[labelled], x[unlabelled], x[test], y[test])


def splits(names: tuple[str, ...], budgets: tuple[int, ...], seeds: range) -> Iterator[tuple[str, int, int]]:
    """(name, budget, seed) of all splits, seed by seed."""
    for seed in seeds:
        for budget in budgets:
            for name in names:
                yield name, budget, seed
