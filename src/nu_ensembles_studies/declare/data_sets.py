"""What a study knows of a data set before loading it: class count, usual sizes, how its rows are drawn."""

from __future__ import annotations

import dataclasses

from nu_ensembles.errors import unknown_name


@dataclasses.dataclass(frozen=True)
class DataSet:
    """A data set that studies run on.

    n_test: None for all; the digits' is what 400 labelled and 800 unlabelled rows leave, so that every size of these
      has the same test rows.
    split: "published" where the paper has rows, "random" where every seed draws its own.
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


def data_set(name: str) -> DataSet:
    """The description of a data set by its name."""
    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    return DATASETS[name]
