"""A small CIFAR, written in every form in which the real ones are passed on."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import pickle
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from nu_ensembles.datasets.cifar_sources import CIFAR10, CIFAR100, Archive, CifarSource

N_TRAIN, N_TEST = 15, 6


@dataclasses.dataclass(frozen=True)
class SmallSet:
    """Images uint8 `[21, 32, 32, 3]`, training part first, and labels `[21]`."""

    source: CifarSource
    images: np.ndarray
    labels: np.ndarray
    coarse: np.ndarray

    def part(self, part: str) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        rows = slice(0, N_TRAIN) if part == "train" else slice(N_TRAIN, None)
        return self.images[rows], self.labels[rows], self.coarse[rows]


def small_set(source: CifarSource) -> SmallSet:
    rng = np.random.default_rng(source.n_classes)
    n_rows = N_TRAIN + N_TEST
    labels = rng.permutation(n_rows) * source.n_classes // n_rows
    images = rng.integers(0, 256, (n_rows, 32, 32, 3), dtype=np.uint8)

    def without_sums(archive: Archive) -> Archive:
        train, test = (tuple((name, None) for name, _ in part) for part in (archive.train, archive.test))
        return dataclasses.replace(archive, train=train, test=test, md5=None)

    small = dataclasses.replace(
        source,
        n_train=N_TRAIN,
        n_test=N_TEST,
        python=without_sums(source.python),
        binary=without_sums(source.binary),
    )
    return SmallSet(small, images, labels, labels // 5)


SMALL10, SMALL100 = small_set(CIFAR10), small_set(CIFAR100)


def write_parquet(small: SmallSet, folder: Path, image_format: str = "PNG", n_shards: int | None = None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True, exist_ok=True)
    for part in ("train", "test"):
        images, labels, coarse = small.part(part)
        cells = []
        for image in images:
            encoded = io.BytesIO()
            Image.fromarray(image).save(encoded, image_format, **({"lossless": True} if image_format == "WEBP" else {}))
            cells.append({"bytes": encoded.getvalue(), "path": None})
        kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
        columns: dict[str, Any] = {"img": pa.array(cells, kind), small.source.label: labels}
        if small.source.coarse_label:
            columns[small.source.coarse_label] = coarse
        table = pa.table(columns)
        if n_shards is None:
            pq.write_table(table, folder / f"{part}.parquet")
        for shard in range(n_shards or 0):
            first, last = (len(labels) * n // (n_shards or 1) for n in (shard, shard + 1))
            name = f"{part}-{shard:05d}-of-{n_shards:05d}.parquet"
            pq.write_table(table.slice(first, last - first), folder / name)


def write_npz(small: SmallSet, folder: Path) -> None:
    arrays = {}
    for part in ("train", "test"):
        arrays[f"x_{part}"], arrays[f"y_{part}"], coarse = small.part(part)
        if small.source.coarse_label:
            arrays[f"y_{part}_coarse"] = coarse
    np.savez(folder / f"{small.source.name}.npz", **arrays)


def pickle_bytes(small: SmallSet, images: np.ndarray, labels: np.ndarray, coarse: np.ndarray) -> bytes:
    """A batch in the form of the official files: keys and names as bytes, pixels channel by channel."""
    batch: dict[bytes, Any] = {
        b"batch_label": b"batch",
        f"{small.source.label}s".encode(): labels.tolist(),
        b"data": images.transpose(0, 3, 1, 2).reshape(len(images), -1).copy(),
        b"filenames": [b"image.png"] * len(images),
    }
    if small.source.coarse_label:
        batch[f"{small.source.coarse_label}s".encode()] = coarse.tolist()
    # The official files are older than NumPy 2 and know the module by its old name.
    return pickle.dumps(batch, protocol=3).replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


def binary_bytes(small: SmallSet, images: np.ndarray, labels: np.ndarray, coarse: np.ndarray) -> bytes:
    heads = [coarse, labels] if small.source.coarse_label else [labels]
    pixels = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    return np.concatenate([np.stack(heads, axis=1).astype(np.uint8), pixels], axis=1).tobytes()


def archive_files(small: SmallSet, form: str) -> dict[str, bytes]:
    """The files of an official archive (`python` or `binary`), each with its share of the rows."""
    archive: Archive = getattr(small.source, form)
    encode = pickle_bytes if form == "python" else binary_bytes
    files = {}
    for part in ("train", "test"):
        names = [name for name, _ in getattr(archive, part)]
        shares = [np.array_split(array, len(names)) for array in small.part(part)]
        for name, rows in zip(names, zip(*shares, strict=True), strict=True):
            files[name] = encode(small, *rows)
    return files


def write_unpacked(small: SmallSet, folder: Path, form: str) -> Path:
    place = folder / getattr(small.source, form).folder
    place.mkdir(parents=True)
    for name, data in archive_files(small, form).items():
        (place / name).write_bytes(data)
    return place


def packed_bytes(small: SmallSet, form: str) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        for name, data in archive_files(small, form).items():
            member = tarfile.TarInfo(f"{getattr(small.source, form).folder}/{name}")
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    return packed.getvalue()


def write_packed(small: SmallSet, folder: Path, form: str) -> Path:
    path = folder / getattr(small.source, form).file
    path.write_bytes(packed_bytes(small, form))
    return path


def md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()
