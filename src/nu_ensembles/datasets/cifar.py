"""CIFAR-10 and CIFAR-100 (Krizhevsky, 2009): found, downloaded if need be, decoded once.

The paper trains on the first images of the training part and tests on the test part; `published_split` gives its rows.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from nu_ensembles.checks import checked
from nu_ensembles.datasets.cifar_cache import cached, data_cache_folder
from nu_ensembles.datasets.cifar_parts import Found
from nu_ensembles.datasets.cifar_readers import find
from nu_ensembles.datasets.cifar_sources import CIFAR10, CIFAR100, CifarSource
from nu_ensembles.datasets.download import download
from nu_ensembles.errors import InputError, unknown_name

DATA_FOLDER = "NU_ENSEMBLES_DATA"

PathLike = str | os.PathLike[str]


@dataclass(frozen=True, eq=False)
class ImageSet:
    """Images and labels in the original order; the arrays are read-only views of a file.

    Attributes:
      train_images: uint8 `[50000, 32, 32, 3]`.
      train_labels: int64 `[50000]`.
      test_images: uint8 `[10000, 32, 32, 3]`.
      test_labels: int64 `[10000]`.
    """

    train_images: np.ndarray
    train_labels: np.ndarray
    test_images: np.ndarray
    test_labels: np.ndarray


@checked
def load_cifar10(data_dir: PathLike | None = None, *, may_download: bool = True, verbose: int = 1) -> ImageSet:
    """Loads CIFAR-10: airplane, automobile, bird, cat, deer, dog, frog, horse, ship, truck.

    Looks in `data_dir`, and only there if it is given; else in the folder that `NU_ENSEMBLES_DATA` names, in the user's
    cache, and at last downloads the official archive (170 MB) into the cache. A folder may hold the hub's parquet
    files, `cifar10.npz`, or the official archive, packed or unpacked, for Python or in binary; directly or in a
    sub-folder `cifar10`.

    Args:
      data_dir: the folder, or the file.
      may_download: False to raise an error instead.
      verbose: 0 for no progress bar.
    """
    return load(CIFAR10, data_dir, "fine", may_download, verbose)


@checked
def load_cifar100(
    data_dir: PathLike | None = None,
    *,
    labels: Literal["fine", "coarse"] = "fine",
    may_download: bool = True,
    verbose: int = 1,
) -> ImageSet:
    """Loads CIFAR-100, by its 100 classes or their 20 superclasses; found as CIFAR-10 is.

    Args:
      data_dir: the folder, or the file.
      labels: `fine` for 100 classes, `coarse` for 20.
      may_download: False to raise an error instead.
      verbose: 0 for no progress bar.
    """
    return load(CIFAR100, data_dir, labels, may_download, verbose)


def load(source: CifarSource, data_dir: PathLike | None, labels: str, may_download: bool, verbose: int) -> ImageSet:
    """Loads one of the sets described in `cifar_sources`."""
    if labels not in ("fine", "coarse"):
        raise unknown_name("kind of labels", labels, ("fine", "coarse"))
    arrays = cached(source.name, _locate(source, data_dir, may_download, verbose))
    kind = "labels" if labels == "fine" else "coarse"
    if f"train_{kind}" not in arrays:
        raise InputError(f"The files of {source.name} hold no coarse labels: use other files or labels='fine'.")
    return ImageSet(arrays["train_images"], arrays[f"train_{kind}"], arrays["test_images"], arrays[f"test_{kind}"])


def _locate(source: CifarSource, data_dir: PathLike | None, may_download: bool, verbose: int) -> Found:
    if data_dir is not None:
        return _required(source, Path(data_dir))
    named = os.environ.get(DATA_FOLDER)
    if named and not Path(named).exists():
        raise InputError(f"{DATA_FOLDER} names {named}, which does not exist: correct it.")
    cache = data_cache_folder()
    for place in ([Path(named)] if named else []) + [cache]:
        if place.exists() and (found := find(source, place)):
            return found
    if not may_download:
        raise InputError(
            f"{source.name} is neither in the folder that {DATA_FOLDER} names nor in {cache}: name a folder that "
            "holds it, or allow a download."
        )
    archive = source.python
    download(archive.address, cache / source.name / archive.file, archive.md5, verbose=verbose)
    return _required(source, cache)


def _required(source: CifarSource, place: Path) -> Found:
    if not place.exists():
        raise InputError(f"{place} does not exist: name the folder that holds {source.name}.")
    found = find(source, place)
    if found is None:
        raise InputError(
            f"{place} holds no {source.name}: put train.parquet and test.parquet, {source.name}.npz, "
            f"{source.python.file} or {source.binary.file} there, or into its sub-folder {source.name}."
        )
    return found
