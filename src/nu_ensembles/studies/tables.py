"""Small tables and grey images on which beta="auto" is tried: none of them had a part in choosing its rule but digits.

wine and breast cancer come with scikit-learn; the embeddings are drawn (ten overlapping Gaussian classes in 128
dimensions, one row in twenty mislabelled); MNIST and Fashion-MNIST are read from their original .gz files.
"""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np

from nu_ensembles.errors import InputError

GZIPPED = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")


def load_table(name: str, seed: int, data_dir: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """All rows `[N, D]` and classes `[N]` of a set; the embeddings are drawn from the seed."""
    if name == "embeddings":
        return _embeddings(seed)
    if name in ("mnist", "fashion_mnist"):
        return _idx_files(name, data_dir)
    from sklearn import datasets

    load = datasets.load_wine if name == "wine" else datasets.load_breast_cancer
    x, y = load(return_X_y=True)
    return np.asarray(x), np.asarray(y)


def _embeddings(seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, 7])
    centres = rng.normal(size=(10, 128)) * 0.22
    y = rng.integers(0, 10, 5200)
    x = (centres[y] + rng.normal(size=(5200, 128))).astype(np.float32)
    wrong = rng.random(5200) < 0.05
    return x, np.where(wrong, rng.integers(0, 10, 5200), y)


def _idx_files(name: str, data_dir: Path | None) -> tuple[np.ndarray, np.ndarray]:
    folder = None if data_dir is None else data_dir / name
    if folder is None or not all((folder / file).is_file() for file in GZIPPED):
        where = f"a folder {name} and name the one around it with --data-dir" if folder is None else folder
        raise InputError(f"{name} is read from its original files: put {' and '.join(GZIPPED)} into {where}.")
    images, labels = (gzip.decompress((folder / file).read_bytes()) for file in GZIPPED)
    x = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784)
    return x, np.frombuffer(labels, np.uint8, offset=8).astype(np.int64)
