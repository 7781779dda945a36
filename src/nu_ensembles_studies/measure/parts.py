"""The rows that a cell trains on and is measured on.

CIFAR uses the paper's rows (first 5,000 training images validate, the next n train, the next 5,000 are unlabelled), so
that a seed changes initialisations, batches and random labels alone. The other sets have no published rows: every seed
draws its own. Of the small tables and grey images none but the digits had a part in choosing the rule of beta="auto":
wine and breast cancer come with scikit-learn; the embeddings are drawn (ten overlapping Gaussian classes in 128
dimensions, one row in twenty mislabelled); MNIST and Fashion-MNIST are read from their original .gz files.
"""

from __future__ import annotations

import dataclasses
import functools
import gzip
from pathlib import Path

import numpy as np

from nu_ensembles.datasets import load_cifar10, load_cifar100, load_digits, published_split, split
from nu_ensembles.errors import InputError
from nu_ensembles.problem import Problem, prepare
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.data_sets import data_set

GZIPPED = ("train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz")


@dataclasses.dataclass(frozen=True, eq=False)
class Parts:
    """Rows of one cell: x `[N, …]` float32 or uint8, y int `[N]`; the unlabelled rows' true classes are for measuring.

    n_classes: how many there are, whichever occur among the rows.
    """

    x: np.ndarray
    y: np.ndarray
    x_unlabeled: np.ndarray
    y_unlabeled: np.ndarray
    x_validation: np.ndarray
    y_validation: np.ndarray
    x_test: np.ndarray
    y_test: np.ndarray
    n_classes: int

    @functools.cached_property
    def problem(self) -> Problem:
        """What is trained on, checked."""
        return prepare(self.x, self.y, self.x_unlabeled, classes=np.arange(self.n_classes))

    @property
    def validation(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Rows and class numbers, for methods that choose among networks; None if there are none."""
        if not len(self.x_validation):
            return None
        return self.problem.further_rows(self.x_validation, self.y_validation, "the validation rows")

    @property
    def measured_rows(self) -> np.ndarray:
        """Test, validation and unlabelled rows, which are predicted in one go."""
        return np.concatenate([self.x_test, self.x_validation, self.x_unlabeled])

    def cut(self, members: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Predictions `[K, N, C]` on the measured rows, as those on test, validation and unlabelled rows."""
        ends = np.cumsum([len(self.x_test), len(self.x_validation)])
        test, validation, unlabeled = np.split(members, ends, axis=1)
        return test, validation, unlabeled


def load_parts(cell: StudyCell, data_dir: Path | None = None) -> Parts:
    """The rows that a cell trains on and is measured on."""
    about = data_set(cell.dataset)
    if cell.dataset.startswith("cifar"):
        return _cifar_parts(cell, about.n_classes, data_dir)
    if cell.split != "random":
        raise InputError(f"{about.title} has no published rows; use split='random'.")
    if cell.dataset == "digits":
        x, y = load_digits(images=not cell.model.startswith("mlp"))
        # Grey levels from 0 to 16; as bytes they would be divided by 255.
        return _drawn(cell, x.astype(np.float32) / 16, y, about.n_classes)
    return _drawn(cell, *load_table(cell.dataset, cell.seed, data_dir), about.n_classes)


def _drawn(cell: StudyCell, x: np.ndarray, y: np.ndarray, n_classes: int) -> Parts:
    """Rows drawn from the cell's seed; what is measured on comes first, so that it does not depend on n and m."""
    sizes = {
        "validation": cell.n_validation,
        "test": cell.n_test,
        "train": cell.n_train,
        "unlabeled": cell.n_unlabeled,
    }
    rows = split(len(x), sizes, cell.seed, stratify=y)
    order = ("train", "unlabeled", "validation", "test")
    arrays = [part for name in order for part in (x[rows[name]], y[rows[name]])]
    return Parts(*arrays, n_classes=n_classes)


def _cifar_parts(cell: StudyCell, n_classes: int, data_dir: Path | None) -> Parts:
    images, labels, test_images, test_labels = _cifar(cell.dataset, data_dir)
    sizes = {"n_validation": cell.n_validation, "n_unlabeled": cell.n_unlabeled}
    if cell.split == "published":
        rows = published_split(len(images), cell.n_train, **sizes)
    else:
        wanted = {"validation": cell.n_validation, "train": cell.n_train, "unlabeled": cell.n_unlabeled}
        rows = split(len(images), wanted, cell.seed, stratify=labels)
    order = ("train", "unlabeled", "validation")
    arrays = [part for name in order for part in (images[rows[name]], labels[rows[name]])]
    arrays += [test_images[: cell.n_test], test_labels[: cell.n_test]]
    return Parts(*arrays, n_classes=n_classes)


@functools.lru_cache(maxsize=2)
def _cifar(name: str, data_dir: Path | None) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    found = (load_cifar10 if name == "cifar10" else load_cifar100)(data_dir)
    return found.train_images, found.train_labels, found.test_images, found.test_labels


def load_table(name: str, seed: int, data_dir: Path | None) -> tuple[np.ndarray, np.ndarray]:
    """All rows `[N, D]` and classes `[N]` of a set; the embeddings are drawn from the seed."""
    if name == "embeddings":
        return _embeddings(seed)
    if name in ("mnist", "fashion_mnist"):
        if data_dir is None:
            raise InputError(f"{_original_files(name)} a folder {name} and name the one around it with --data-dir.")
        return read_idx_images(data_dir / name)
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


def read_idx_images(folder: Path) -> tuple[np.ndarray, np.ndarray]:
    """Images `[N, 784]` of bytes and their classes, from MNIST's (or Fashion-MNIST's) training files."""
    if not all((folder / file).is_file() for file in GZIPPED):
        raise InputError(f"{_original_files(folder.name)} {folder}.")
    images, labels = (gzip.decompress((folder / file).read_bytes()) for file in GZIPPED)
    x = np.frombuffer(images, np.uint8, offset=16).reshape(-1, 784)
    return x, np.frombuffer(labels, np.uint8, offset=8).astype(np.int64)


def _original_files(name: str) -> str:
    return f"{name} is read from its original files: put {' and '.join(GZIPPED)} into"
