"""Reads the official archives of CIFAR: for Python (pickles) and in binary, packed or unpacked."""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from nu_ensembles.datasets.cifar_parts import SIDE, Found, Part, check_part
from nu_ensembles.datasets.cifar_pickles import read_pickle
from nu_ensembles.datasets.cifar_sources import Archive, CifarSource
from nu_ensembles.errors import DamagedFileError, InputError

_PIXELS = SIDE * SIDE

Contents = list[tuple[str, bytes]]
"""Files of a part: the name in errors, and the content."""

Reader = Callable[[CifarSource, Contents], Part]


def find_unpacked(source: CifarSource, folder: Path) -> Found | None:
    """The files of an unpacked archive, here or in the folder that unpacking makes."""
    for archive, read in ((source.python, _from_pickles), (source.binary, _from_binary)):
        for place in (folder / archive.folder, folder):
            files = {part: [place / name for name, _ in getattr(archive, part)] for part in ("train", "test")}
            if files["test"][0].is_file():
                return Found((*files["train"], *files["test"]), _reader(source, archive, read, files))
    return None


def _reader(source: CifarSource, archive: Archive, read: Reader, files: dict[str, list[Path]]) -> Callable[[str], Part]:
    def read_part(part: str) -> Part:
        sums = [md5 for _, md5 in getattr(archive, part)]
        contents = [_checked_file(path, md5) for path, md5 in zip(files[part], sums, strict=True)]
        return check_part(source, part, files[part][0], read(source, contents))

    return read_part


def _checked_file(path: Path, md5: str | None) -> tuple[str, bytes]:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise DamagedFileError(f"{path} cannot be read ({error.strerror}): unpack the archive again.") from error
    if md5 is not None and hashlib.md5(data, usedforsecurity=False).hexdigest() != md5:
        raise DamagedFileError(
            f"{path} does not match its official checksum (cut off or altered): download the archive again."
        )
    return str(path), data


def find_packed(source: CifarSource, folder: Path) -> Found | None:
    """An archive as downloaded."""
    for archive, read in ((source.python, _from_pickles), (source.binary, _from_binary)):
        path = folder / archive.file
        if path.is_file():
            return Found((path,), lambda part, p=path, a=archive, r=read: _read_packed(source, a, p, r, part))
    return None


def _read_packed(source: CifarSource, archive: Archive, path: Path, read: Reader, part: str) -> Part:
    if archive.md5 is not None and md5_of(path) != archive.md5:
        raise DamagedFileError(
            f"{path} does not match its official checksum (cut off or altered): remove it and download it again."
        )
    wanted = [f"{archive.folder}/{name}" for name, _ in getattr(archive, part)]
    contents: dict[str, bytes] = {}
    try:
        # Members are read into memory by name; nothing is unpacked, so no path in the archive matters.
        with tarfile.open(path, "r:*") as archive_file:
            for member in archive_file:
                if member.name in wanted and member.isfile() and (file := archive_file.extractfile(member)):
                    contents[member.name] = file.read()
    except (tarfile.TarError, EOFError, OSError, zlib.error) as error:
        raise DamagedFileError(f"{path} is not a complete archive: remove it and download it again.") from error
    missing = [name for name in wanted if name not in contents]
    if missing:
        raise DamagedFileError(f"{path} lacks {missing[0]}: remove it and download it again.")
    return check_part(source, part, path, read(source, [(f"{name} of {path}", contents[name]) for name in wanted]))


def md5_of(path: Path) -> str:
    """The checksum that the publishers give; it tells damage, not forgery."""
    with open(path, "rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


def _from_pickles(source: CifarSource, contents: Contents) -> Part:
    keys = [f"{key}s" for key in (source.label, source.coarse_label) if key]
    images, labels = [], []
    for name, data in contents:
        batch = read_pickle(name, data)
        pixels = batch.get("data")
        columns = [batch.get(key) for key in keys]
        if not isinstance(pixels, np.ndarray) or pixels.ndim != 2 or pixels.shape[1] != 3 * _PIXELS:
            raise InputError(f"{name} holds no images of 3 × 32 × 32 bytes: download the set anew.")
        for key, column in zip(keys, columns, strict=True):
            if not isinstance(column, list) or not all(type(label) is int for label in column):
                raise InputError(f"{name} has no list of numbers {key!r}: download the set anew.")
        if any(len(column or ()) != len(pixels) for column in columns):
            raise DamagedFileError(f"{name} has not one label for each image: download it again.")
        images.append(_channels_last(pixels))
        labels.append(np.array(columns, np.int64).reshape(len(keys), len(pixels)))
    return _part(images, labels)


def _from_binary(source: CifarSource, contents: Contents) -> Part:
    """Records of the labels, coarse before fine, a byte each, and the pixels."""
    n_labels = 2 if source.coarse_label else 1
    images, labels = [], []
    for name, data in contents:
        if len(data) % (n_labels + 3 * _PIXELS):
            raise DamagedFileError(f"{name} ends in the middle of an image (it was cut off): download it again.")
        records = np.frombuffer(data, np.uint8).reshape(-1, n_labels + 3 * _PIXELS)
        images.append(_channels_last(records[:, n_labels:]))
        labels.append(records[:, :n_labels].T[::-1].astype(np.int64))
    return _part(images, labels)


def _channels_last(pixels: np.ndarray) -> np.ndarray:
    return pixels.reshape(-1, 3, SIDE, SIDE).transpose(0, 2, 3, 1)


def _part(images: list[np.ndarray], labels: list[np.ndarray]) -> Part:
    fine, *coarse = np.concatenate(labels, axis=1)
    return Part(np.ascontiguousarray(np.concatenate(images)), fine, coarse[0] if coarse else None)
