"""Arrays that memory does not hold: NumPy files that are mapped, and folders of images, which are decoded once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles.datasets.arrow_pieces import file_state, fingerprint_of
from nu_ensembles.datasets.image_files import decode_images
from nu_ensembles.datasets.mapped_records import MappedRecords
from nu_ensembles.datasets.row_store import stored_array
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.rows import LazyRows

IMAGES_AT_A_TIME = 256
# Values that are read at a time: 2,048 rows of 224 x 224 x 3 bytes would be 300 MB.
VALUES_AT_A_TIME = 1 << 22


class MappedRows(LazyRows):
    """An array `[N, …]` in a file, as it lies there.

    Args:
      array: a `np.memmap` in C order, of which only the place is used.
    """

    def __init__(self, array: np.memmap) -> None:
        if array.filename is None or not array.flags.c_contiguous:
            raise InputError("A memory-mapped array must be a whole .npy file in C order; save it so with numpy.save.")
        self.path = Path(array.filename)
        self.shape, self.dtype = array.shape, array.dtype
        # A slice of a map keeps the offset of the whole.
        base: Any = array
        while isinstance(base.base, np.memmap):
            base = base.base
        offset = array.offset + array.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        self.fingerprint = fingerprint_of([file_state(self.path), list(self.shape), self.dtype.str, offset])
        self.records = MappedRecords(self.path, self.dtype, len(self), offset, self.shape[1:])

    def take(self, indices: Any, axis: int = 0) -> np.ndarray:
        return self.records.take(np.asarray(indices))

    def in_parts(self, first: int = 0) -> Iterator[np.ndarray]:
        return self.records.in_parts(first, max(1, VALUES_AT_A_TIME // int(np.prod(self.shape[1:]))))


class ImageRows(LazyRows):
    """Image files as uint8 `[N, height, width, channels]`, decoded once into a local file.

    Args:
      files: the images.
      what: to call them in messages.
      size: (height, width) to resize to; None where all have one size.
      channels: 1 for grey or 3 for colour; None for what the first image is.
    """

    def __init__(
        self, files: list[Path], what: str, size: tuple[int, int] | None = None, channels: int | None = None
    ) -> None:
        self.files, self.what, self.size, self.channels = files, what, size, channels
        first = self._decoded(files[:1])
        self.shape, self.dtype = (len(files), *first.shape[1:]), np.dtype(np.uint8)
        self.channels = first.shape[-1]
        self.fingerprint = fingerprint_of([[file_state(file) for file in files], list(self.shape)])
        self._records: MappedRecords | None = None

    def take(self, indices: Any, axis: int = 0) -> np.ndarray:
        if self._records is None:
            self._records = stored_array(self.fingerprint, self.in_parts, self.shape, self.dtype, self.what)
        return self._records.take(np.asarray(indices))

    def in_parts(self, first: int = 0) -> Iterator[np.ndarray]:
        for start in range(first, len(self), IMAGES_AT_A_TIME):
            images = self._decoded(self.files[start : start + IMAGES_AT_A_TIME])
            if images.shape[1:] != self.shape[1:]:
                height, width = images.shape[1:3]
                raise InputError(
                    f"{self.files[start]} is {height}×{width} pixels but {self.files[0]} is {self.shape[1]}×"
                    f"{self.shape[2]}: set image_size=(height, width) to resize all images."
                )
            yield images

    def _decoded(self, files: list[Path]) -> np.ndarray:
        return decode_images([(str(file), file) for file in files], self.size, self.channels)


def mapped_array(path: str | os.PathLike[str]) -> MappedRows:
    """The array of a `.npy` file, without reading it."""
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise DamagedFileError(f"{os.fspath(path)} is not a complete .npy file of numbers: save it again.") from error
    return MappedRows(array)
