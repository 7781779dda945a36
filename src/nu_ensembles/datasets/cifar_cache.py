"""The decoded set as one file that is mapped into memory: a second load reads nothing but a header.

The file is in the safetensors format, whose arrays lie end to end after a JSON header; it is named after the files
that it was made from, their sizes and times, so that other files make another one.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from nu_ensembles.datasets.cifar_parts import Found
from nu_ensembles.errors import InputError
from nu_ensembles.storage import save_arrays

_DTYPES = {"U8": np.uint8, "I64": np.int64}


def data_cache_folder() -> Path:
    """The per-user folder of downloaded and decoded sets."""
    try:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except RuntimeError as error:
        raise InputError("There is no home folder for the cache: set XDG_CACHE_HOME to a folder.") from error
    return base / "nu-ensembles" / "data"


def cached(name: str, found: Found) -> dict[str, np.ndarray]:
    """Images and labels of both parts, from the cache or else decoded and put there.

    Returns:
      train_images, train_labels, test_images, test_labels and, where there are any, train_coarse, test_coarse.
    """
    path = data_cache_folder() / "decoded" / f"{name}-{_fingerprint(found)}.safetensors"
    # A damaged or foreign file is made again.
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        return mapped(path)
    arrays = {
        f"{part}_{field}": array
        for part in ("train", "test")
        for field, array in found.read(part)._asdict().items()
        if array is not None
    }
    # Where nothing can be written, every load decodes.
    with contextlib.suppress(InputError, OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        save_arrays(path, arrays)
        return mapped(path)
    return arrays


def mapped(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a safetensors file as read-only views; nothing is read before it is used."""
    with open(path, "rb") as file:
        start = 8 + int.from_bytes(file.read(8), "little")
        if start > path.stat().st_size:
            raise ValueError("cut off")
        header: Mapping = json.loads(file.read(start - 8))
    # The whole file in one map: its size is checked here, the arrays below are views.
    content = np.memmap(path, np.uint8, mode="r").view(np.ndarray)
    arrays = {}
    ends = [start]
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        first, last = (start + offset for offset in entry["data_offsets"])
        arrays[name] = content[first:last].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
        ends.append(last)
    if max(ends) != len(content):
        raise ValueError("cut off")
    return arrays


def _fingerprint(found: Found) -> str:
    states = [(str(path.resolve()), (state := path.stat()).st_size, state.st_mtime_ns) for path in found.files]
    return hashlib.sha256(json.dumps(states).encode()).hexdigest()[:16]
