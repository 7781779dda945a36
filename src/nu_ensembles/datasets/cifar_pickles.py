"""Reads the official CIFAR pickles without trusting them.

These files hold a dictionary of numbers, texts and one array of bytes. The unpickler knows stand-ins for the three
NumPy names that describe such an array, and no other name: whatever else a file asks for is refused before it runs.
"""

from __future__ import annotations

import io
import math
import pickle
from typing import Any

import numpy as np

from nu_ensembles.errors import DamagedFileError, InputError

_ARRAY_MODULES = ("numpy.core.multiarray", "numpy._core.multiarray")


def read_pickle(name: str, data: bytes) -> dict[str, Any]:
    """The dictionary of a CIFAR batch: keys as text, arrays of bytes as uint8 arrays.

    Args:
      name: the file in errors.
      data: its content.
    """
    try:
        batch = _Unpickler(io.BytesIO(data), name).load()
    except _RefusedError as refusal:
        raise InputError(
            f"{name} asks for {refusal}, which no CIFAR file does: it may be harmful; download the set anew."
        ) from None
    # A damaged pickle can raise nearly anything: it is a program for a small machine.
    except Exception as error:
        raise DamagedFileError(
            f"{name} is not a complete CIFAR file (cut off or altered): download it again."
        ) from error
    if not isinstance(batch, dict) or not all(isinstance(key, bytes | str) for key in batch):
        raise InputError(f"{name} is no CIFAR file: it holds no dictionary of arrays; download the set anew.")
    texts = {key.decode("latin-1") if isinstance(key, bytes) else key: value for key, value in batch.items()}
    return {key: value.as_array(name) if isinstance(value, _StoredArray) else value for key, value in texts.items()}


class _RefusedError(Exception):
    """A name that CIFAR files do not contain."""


class _ArrayType:
    """Stands for `numpy.ndarray`."""

    def __setstate__(self, state: Any) -> None:
        # Without it, a file could set attributes of this class.
        pass


class _StoredType:
    """Stands for `numpy.dtype`: keeps the name, ignores the rest."""

    def __init__(self, name: Any, *_: Any) -> None:
        self.name = name.decode("latin-1") if isinstance(name, bytes) else str(name)

    def __setstate__(self, state: Any) -> None:
        pass


class _StoredArray:
    """Stands for an array that is being rebuilt."""

    def __init__(self, *_: Any) -> None:
        self.state: Any = None

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def as_array(self, name: str) -> np.ndarray:
        """The array, if it is one of bytes in rows; the content is copied, never interpreted."""
        match self.state:
            case (_, tuple(shape), _StoredType(name="u1" | "|u1"), by_columns, bytes(raw)):
                whole = all(isinstance(n, int) and n >= 0 for n in shape)
                if whole and not by_columns and math.prod(shape) == len(raw):
                    return np.frombuffer(raw, np.uint8).reshape(shape)
        raise InputError(
            f"{name} holds an array of something else than bytes, as no CIFAR file does: download it anew."
        )


class _Unpickler(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, name: str) -> None:
        super().__init__(file, encoding="bytes")
        self.name = name

    def find_class(self, module: str, name: str) -> Any:
        if module in _ARRAY_MODULES and name == "_reconstruct":
            return _StoredArray
        if module == "numpy" and name in ("ndarray", "dtype"):
            return _ArrayType if name == "ndarray" else _StoredType
        raise _RefusedError(f"{module}.{name}")

    def persistent_load(self, pid: Any) -> Any:
        raise _RefusedError("an object stored elsewhere")
