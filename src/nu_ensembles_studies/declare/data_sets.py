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
    # Tables on which the study `rivals` compares classifiers: of unlabelled and of test rows at most so many.
    **{
        name: DataSet(title, n_classes, 100, 1000, 0, 1000, "random")
        for name, title, n_classes in (
            ("iris", "Iris", 3),
            ("vehicle", "Vehicle", 4),
            ("letter", "Letter", 26),
            ("dna", "DNA", 3),
            ("pima", "Pima", 2),
            ("spam", "Spam", 2),
            ("german", "German credit", 2),
            ("cellseg", "Cell segmentation", 2),
            ("cifar10_hog", "CIFAR-10, HOG", 10),
            ("income", "Income", 9),
            ("soybean", "Soybean", 19),
            ("scat", "Scat", 3),
            ("penguins", "Penguins", 3),
        )
    },
}


def data_set(name: str) -> DataSet:
    """The description of a data set by its name; of a shift, whose sizes its table decides, there is little to say."""
    if "." in name:
        from nu_ensembles_studies.shifts import names

        if name not in names():
            raise unknown_name("shift", name, names())
        return DataSet(name, 0, 100, 0, 0, None, "random")
    if name not in DATASETS:
        raise unknown_name("data set", name, DATASETS)
    return DATASETS[name]
