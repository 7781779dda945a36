"""One part of CIFAR as every reader gives it, and what must hold for it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np

from nu_ensembles.datasets.cifar_sources import CifarSource
from nu_ensembles.errors import DamagedFileError

SIDE = 32


class Part(NamedTuple):
    """The training or the test part.

    images: uint8 `[N, 32, 32, 3]`.
    labels: int64 `[N]`.
    coarse: int64 `[N]`, the superclasses of CIFAR-100, or None.
    """

    images: np.ndarray
    labels: np.ndarray
    coarse: np.ndarray | None


class Found(NamedTuple):
    """A set on the disk.

    files: all files that it consists of.
    read: reads the part `train` or `test`.
    """

    files: tuple[Path, ...]
    read: Callable[[str], Part]


def check_part(source: CifarSource, part: str, path: Path, found: Part) -> Part:
    """Refuses a part that cannot be the set it claims to be."""
    n_images = source.n_train if part == "train" else source.n_test
    if found.images.shape != (n_images, SIDE, SIDE, 3):
        raise DamagedFileError(
            f"{path} gives {part} images of shape {found.images.shape} instead of "
            f"{(n_images, SIDE, SIDE, 3)}: download the set again."
        )
    if found.labels.shape != (n_images,) or (found.coarse is not None and found.coarse.shape != (n_images,)):
        raise DamagedFileError(f"{path} has not one label for each of {n_images} {part} images: download it again.")
    if found.labels.min() < 0 or found.labels.max() >= source.n_classes:
        raise DamagedFileError(f"{path} has labels outside 0 … {source.n_classes - 1}: download the set again.")
    return found
