"""Reads CIFAR as the hub passes it on: parquet files with a column of encoded images, whole or in shards."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles.datasets.cifar_parts import Found, Part, check_part
from nu_ensembles.datasets.cifar_sources import CifarSource
from nu_ensembles.datasets.image_files import decode_images
from nu_ensembles.errors import DamagedFileError, InputError, MissingExtraError


def find_parquet(source: CifarSource, folder: Path) -> Found | None:
    """The files of both parts, if this folder holds them."""
    parts = {part: _shards(folder, part) for part in ("train", "test")}
    if not all(parts.values()) or not _has_column(parts["test"][0], source.label):
        return None
    return Found((*parts["train"], *parts["test"]), lambda part: _read(source, parts[part], part))


def _shards(folder: Path, part: str) -> tuple[Path, ...]:
    """`train.parquet`, or `train-00000-of-00002.parquet` and its siblings, all of which must be there."""
    whole = folder / f"{part}.parquet"
    if whole.is_file():
        return (whole,)
    numbered = {
        (int(match[1]), int(match[2])): path
        for path in sorted(folder.glob(f"{part}-*.parquet"))
        if (match := re.fullmatch(rf"{part}-(\d+)-of-(\d+)\.parquet", path.name))
    }
    if not numbered:
        return ()
    n_shards = next(iter(numbered))[1]
    missing = [n for n in range(n_shards) if (n, n_shards) not in numbered]
    if missing:
        raise DamagedFileError(
            f"{folder} lacks {part}-{missing[0]:05d}-of-{n_shards:05d}.parquet: download all {n_shards} files."
        )
    return tuple(numbered[n, n_shards] for n in range(n_shards))


def _has_column(path: Path, column: str) -> bool:
    """Tells the two sets apart, whose parquet files have the same names."""
    return column in _opened_parquet(path).schema_arrow.names


def _opened_parquet(path: Path) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as error:
        raise MissingExtraError("Reading parquet files", "parquet") from error
    try:
        return pq.ParquetFile(path, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise DamagedFileError(f"{path} is not a complete parquet file: download it again.") from error


def _read(source: CifarSource, files: tuple[Path, ...], part: str) -> Part:
    """Decodes the images of the hub's files, several at a time."""
    columns = ["img", source.label, *([source.coarse_label] if source.coarse_label else [])]

    def decode(batch: tuple[Path, int, list[Any]]) -> np.ndarray:
        path, first, cells = batch
        named = [(f"row {row} of {path}", (cell or {}).get("bytes") or b"") for row, cell in enumerate(cells, first)]
        return decode_images(named, None, 3)

    labels: list[np.ndarray] = []

    def batches() -> Iterator[tuple[Path, int, list[Any]]]:
        for path in files:
            first = 1
            for batch in _batches(path, columns):
                labels.append(np.stack([np.asarray(batch.column(c), np.int64) for c in columns[1:]]))
                yield path, first, batch.column("img").to_pylist()
                first += batch.num_rows

    # Threads suffice: Pillow decodes without holding the interpreter.
    with ThreadPoolExecutor(min(os.cpu_count() or 1, 8)) as pool:
        images = list(pool.map(decode, batches()))
    fine, *coarse = np.concatenate(labels, axis=1)
    return check_part(source, part, files[0], Part(np.concatenate(images), fine, coarse[0] if coarse else None))


def _batches(path: Path, columns: list[str]) -> Iterator[Any]:
    import pyarrow as pa

    try:
        with _opened_parquet(path) as file:
            missing = [column for column in columns if column not in file.schema_arrow.names]
            if missing:
                raise InputError(f"{path} has no column {missing[0]!r}: give the files of the hub as they are.")
            yield from file.iter_batches(1000, columns=columns)
    except (pa.ArrowException, OSError) as error:
        raise DamagedFileError(f"{path} is not a complete parquet file: download it again.") from error
