"""Data as plain NumPy arrays: embedded sets, CIFAR, the files that a user brings, and splits by seed."""

from nu_ensembles.datasets.cifar import ImageSet, load_cifar10, load_cifar100
from nu_ensembles.datasets.digits import load_digits
from nu_ensembles.datasets.files import Table, read_table
from nu_ensembles.datasets.open_rows import open_rows
from nu_ensembles.datasets.predictions import write_predictions
from nu_ensembles.datasets.splits import published_split, split

__all__ = [
    "ImageSet",
    "Table",
    "load_cifar10",
    "load_cifar100",
    "load_digits",
    "open_rows",
    "published_split",
    "read_table",
    "split",
    "write_predictions",
]
