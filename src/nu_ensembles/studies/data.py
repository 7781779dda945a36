"""The data sets that studies run on, cut into labelled, unlabelled, validation and test rows.

CIFAR uses the paper's rows (first 5,000 training images validate, the next n train, the next 5,000 are unlabelled), so
that a seed changes initialisations, batches and random labels alone. The other sets have no published rows: every seed
draws its own.
"""

from __future__ import annotations

import dataclasses
import functools
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.studies.cells import Cell
from nu_ensembles.studies.tables import load_table

if TYPE_CHECKING:
    from nu_ensembles.problem import Problem


@dataclasses.dataclass(frozen=True)
class DataSet:
    """What a study knows of a data set before loading it: class count, usual sizes, how its rows are drawn.

    n_test: None for all; the digits' is what 400 labelled and 800 unlabelled rows leave, so that every size of these
      has the same test rows.
    augment: whether labelled images are flipped and cropped in training.
    """

    title: str
    n_classes: int
    n_train: int
    n_unlabeled: int
    n_validation: int
    n_test: int | None
    split: str
    augment: bool = False


DATASETS = {
    "digits": DataSet("Digits", 10, 100, 800, 200, 397, "random"),
    "cifar10": DataSet("CIFAR-10", 10, 1000, 5000, 5000, None, "published", augment=True),
    "cifar100": DataSet("CIFAR-100", 100, 1000, 5000, 5000, None, "published", augment=True),
    "wine": DataSet("Wine", 3, 30, 78, 0, None, "random"),
    "breast_cancer": DataSet("Breast cancer", 2, 40, 300, 0, None, "random"),
    "embeddings": DataSet("Embeddings", 10, 200, 2000, 0, None, "random"),
    "mnist": DataSet("MNIST", 10, 100, 2000, 0, 5000, "random"),
    "fashion_mnist": DataSet("Fashion-MNIST", 10, 200, 2000, 0, 5000, "random"),
}


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
        from nu_ensembles.problem import prepare

        return prepare(self.x, self.y, self.x_unlabeled, classes=np.arange(self.n_classes))

    @property
    def validation(self) -> tuple[np.ndarray, np.ndarray] | None:
        """Rows and class numbers, for methods that choose among networks; None if there are none."""
        if not len(self.x_validation):
            return None
        return self.problem.further_rows(self.x_validation, self.y_validation, "the validation rows")


def data_set(name: str) -> DataSet:
    """The description of a data set by its name."""
    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    return DATASETS[name]


def load_parts(cell: Cell, data_dir: Path | None = None) -> Parts:
    """The rows that a cell trains on and is measured on."""
    about = data_set(cell.dataset)
    if cell.dataset.startswith("cifar"):
        return _published(cell, about.n_classes, data_dir)
    if cell.split != "random":
        raise InputError(f"{about.title} has no published rows; use split='random'.")
    if cell.dataset == "digits":
        return _drawn(cell, *_digits(flat=cell.model.startswith("mlp")), about.n_classes)
    return _drawn(cell, *load_table(cell.dataset, cell.seed, data_dir), about.n_classes)


def _drawn(cell: Cell, x: np.ndarray, y: np.ndarray, n_classes: int) -> Parts:
    """Rows drawn from the cell's seed; what is measured on comes first, so that it does not depend on n and m."""
    from nu_ensembles.datasets import split

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


def _digits(flat: bool) -> tuple[np.ndarray, np.ndarray]:
    from nu_ensembles.datasets import load_digits

    x, y = load_digits(images=not flat)
    # Grey levels from 0 to 16; as bytes they would be divided by 255.
    return x.astype(np.float32) / 16, y


def _published(cell: Cell, n_classes: int, data_dir: Path | None) -> Parts:
    from nu_ensembles.datasets import published_split, split

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
    from nu_ensembles.datasets import load_cifar10, load_cifar100

    found = (load_cifar10 if name == "cifar10" else load_cifar100)(data_dir)
    return found.train_images, found.train_labels, found.test_images, found.test_labels
