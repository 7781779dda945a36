"""Finds CIFAR-10 or CIFAR-100 in a folder, in any of the forms in which they are passed on.

Parquet files of the hub, `.npz`, and the official archives for Python and in binary, packed or not: all give the same
arrays, in the original order.
"""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np

from nu_ensembles.datasets.cifar_archives import find_packed, find_unpacked
from nu_ensembles.datasets.cifar_hub import find_parquet
from nu_ensembles.datasets.cifar_parts import Found, Part, check_part
from nu_ensembles.datasets.cifar_sources import CifarSource
from nu_ensembles.datasets.npz_files import read_npz
from nu_ensembles.datasets.table import ReadOptions
from nu_ensembles.errors import InputError


def find(source: CifarSource, place: Path) -> Found | None:
    """Looks for a set in any form: `place` is its folder, the one above it, or the file itself."""
    if place.is_file():
        folders = [place.parent]
    else:
        own = place / source.name
        # The hub keeps its files one level down, in a folder named after the configuration.
        folders = [own, own / "plain_text", own / source.name, place, place / "plain_text"]
    for folder in folders:
        for form in (find_parquet, _find_npz, find_unpacked, find_packed):
            found = form(source, folder)
            if found is not None and (not place.is_file() or place in found.files):
                return found
    return None


def _find_npz(source: CifarSource, folder: Path) -> Found | None:
    path = folder / f"{source.name}.npz"
    return Found((path,), lambda part: _read_npz(source, path, part)) if path.is_file() else None


def _read_npz(source: CifarSource, path: Path, part: str) -> Part:
    """Arrays x_train, y_train, x_test, y_test, and for CIFAR-100 y_train_coarse and y_test_coarse if they are there."""
    images, labels = _rows(path, f"x_{part}", f"y_{part}")
    coarse_name = f"y_{part}_coarse"
    with zipfile.ZipFile(path) as archive:
        has_coarse = f"{coarse_name}.npy" in archive.namelist()
    coarse = _rows(path, f"x_{part}", coarse_name)[1] if source.coarse_label and has_coarse else None
    return check_part(source, part, path, Part(images, labels, coarse))


def _rows(path: Path, images: str, labels: str) -> tuple[np.ndarray, np.ndarray]:
    known = [f"{kind}_{part}" for part in ("train", "test") for kind in "xy"]
    known += ["y_train_coarse", "y_test_coarse"]
    others = [name for name in known if name not in (images, labels)]
    table = read_npz(path, ReadOptions(target=labels, ignore=others))
    if table.X.dtype != np.uint8 or table.y is None or table.y.dtype.kind not in "iu":
        raise InputError(f"{path} must hold {images} as uint8 and {labels} as whole numbers: save it so.")
    return table.X, table.y.astype(np.int64)
