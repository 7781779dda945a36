"""Named arrays in one safetensors file, with a SHA-256 that is checked before anything is read from it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping

import ml_dtypes
import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.storage.files import PathLike, altered, read_bytes, write_bytes

# A table of our own, because safetensors' numpy reader lacks bfloat16 in some releases that we allow.
_DTYPES: dict[str, np.dtype] = {
    **{f"F{bits}": np.dtype(f"<f{bits // 8}") for bits in (16, 32, 64)},
    **{f"I{bits}": np.dtype(f"<i{bits // 8}") for bits in (8, 16, 32, 64)},
    **{f"U{bits}": np.dtype(f"<u{bits // 8}") for bits in (8, 16, 32, 64)},
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "BOOL": np.dtype(bool),
}


def save_arrays(path: PathLike, arrays: Mapping[str, ArrayLike]) -> str:
    """Writes arrays of any shape, 0-d included, and returns the file's SHA-256 in hexadecimal."""
    from safetensors.numpy import save

    data = save({name: _storable(name, array) for name, array in arrays.items()})
    write_bytes(path, data)
    return hashlib.sha256(data).hexdigest()


def load_arrays(path: PathLike, sha256: str | None) -> dict[str, np.ndarray]:
    """Reads what `save_arrays` wrote, after comparing the file with `sha256` (`None`: its form only)."""
    from safetensors import SafetensorError, deserialize

    raw = read_bytes(path, "The file")
    if sha256 is not None and hashlib.sha256(raw).hexdigest() != sha256:
        raise altered(os.fspath(path))
    try:
        return {
            name: np.frombuffer(entry["data"], _DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in deserialize(raw)
        }
    except (SafetensorError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise DamagedFileError(
            f"{os.fspath(path)} is not a complete safetensors file: save it again or restore it from a copy."
        ) from error


def _storable(name: str, values: ArrayLike) -> np.ndarray:
    # order="C" because safetensors copies memory as it lies; np.ascontiguousarray would lift 0-d to 1-d.
    array = np.asarray(values, order="C")
    if array.dtype.newbyteorder("<") not in _DTYPES.values():
        raise InputError(
            f"The array {name!r} of type {array.dtype} cannot be saved: convert it to numbers or booleans."
        )
    return array
