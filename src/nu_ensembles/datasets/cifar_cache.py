"""The decoded set as one file that is mapped into memory: a second load decodes nothing and copies nothing.

The file is in the safetensors format, whose arrays lie end to end after a JSON header; it is named after the files
that it was made from, their sizes and times, so that other files make another one. A CRC-32 in its header covers
every byte of it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from nu_ensembles.datasets.cifar_parts import Found
from nu_ensembles.errors import InputError
from nu_ensembles.storage import write_bytes

_DTYPES = {"U8": np.uint8, "I64": np.int64}
# CRC-32 takes 0.05 s for the 185 MB of a set, SHA-256 0.11 s and BLAKE2b 0.22 s; it finds damage, which is all we ask.
_CHECKSUM = "crc32"
_NO_CHECKSUM = b"0" * 8
_BEFORE_CHECKSUM = b'"crc32":"'


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
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return mapped(path)
    arrays = {
        f"{part}_{field}": array
        for part in ("train", "test")
        for field, array in found.read(part)._asdict().items()
        if array is not None
    }
    # Where nothing can be written, or not rightly, every load decodes.
    with contextlib.suppress(InputError, OSError, ValueError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_bytes(path, _with_checksum(arrays))
        return mapped(path)
    return arrays


def mapped(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a file of this cache as read-only views, once its checksum was found right."""
    if not path.is_file():
        raise ValueError("not a file: a pipe would never end")
    # One map of the whole file: the arrays below are views of it.
    content = np.memmap(path, np.uint8, mode="r").view(np.ndarray)
    start = 8 + int.from_bytes(content[:8].tobytes(), "little")
    header_bytes = content[8:start].tobytes()
    header: Mapping = json.loads(header_bytes)
    stated = header["__metadata__"][_CHECKSUM].encode()
    if stated != _checksum(content.data, 8 + header_bytes.index(_BEFORE_CHECKSUM) + len(_BEFORE_CHECKSUM)):
        raise ValueError("altered or cut off")
    arrays = {}
    for name, entry in header.items():
        if name != "__metadata__":
            first, last = (start + offset for offset in entry["data_offsets"])
            arrays[name] = content[first:last].view(_DTYPES[entry["dtype"]]).reshape(entry["shape"])
    _check_form(arrays)
    return arrays


def _check_form(arrays: Mapping[str, np.ndarray]) -> None:
    """Whether these are images and a label each: a checksum tells of damage, not of what was written."""
    for part in ("train", "test"):
        images = arrays[f"{part}_images"]
        if images.dtype != np.uint8 or images.ndim != 4 or not len(images):
            raise ValueError("no images")
        for name in (f"{part}_labels", f"{part}_coarse"):
            labels = arrays.get(name)
            if labels is None and name.endswith("coarse"):
                continue
            if labels is None or labels.dtype != np.int64 or labels.shape != images.shape[:1] or labels.min() < 0:
                raise ValueError("not a label for each image")


def _with_checksum(arrays: Mapping[str, np.ndarray]) -> bytes:
    """A safetensors file that holds its own checksum."""
    from safetensors.numpy import save

    data = save(
        {name: np.ascontiguousarray(array) for name, array in arrays.items()},
        {_CHECKSUM: _NO_CHECKSUM.decode()},
    )
    place = data.index(_BEFORE_CHECKSUM + _NO_CHECKSUM) + len(_BEFORE_CHECKSUM)
    return data[:place] + _checksum(memoryview(data), place) + data[place + len(_NO_CHECKSUM) :]


def _checksum(content: memoryview, place: int) -> bytes:
    """CRC-32 of all bytes, in eight hexadecimal digits; those at `place`, where it stands itself, count as zeros."""
    head = zlib.crc32(_NO_CHECKSUM, zlib.crc32(content[:place]))
    return b"%08x" % zlib.crc32(content[place + len(_NO_CHECKSUM) :], head)


def _fingerprint(found: Found) -> str:
    states = [(str(path.resolve()), (state := path.stat()).st_size, state.st_mtime_ns) for path in found.files]
    return hashlib.sha256(json.dumps(states).encode()).hexdigest()[:16]
