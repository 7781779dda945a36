"""The official pickles, rebuilt bit for bit: images and labels are theirs if the MD5 sums are.

`python_2_pickle` writes what Python 2's cPickle wrote in 2009, opcode by opcode. The official files also hold the name
of each original image, which the hub's files lack: with the official archive, or lists of the names, in the folder that
`NU_ENSEMBLES_DATA` names, the slow tests rebuild all eight files.
"""

from __future__ import annotations

import hashlib
import os
import struct
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from nu_ensembles.datasets import cifar
from nu_ensembles.datasets.cifar_pickles import read_pickle
from nu_ensembles.datasets.cifar_sources import CIFAR10, CIFAR100, CifarSource

# cPickle hands over the items of a list in groups of this size.
GROUP = 1000


class Python2Pickler:
    """Protocol 2 as cPickle wrote it: memo numbers from 1, none for numbers, tuples and texts of one character."""

    def __init__(self) -> None:
        self.n_remembered = 0

    def remember(self) -> bytes:
        self.n_remembered += 1
        number = self.n_remembered
        return b"q%c" % number if number < 256 else b"r" + struct.pack("<i", number)

    def number(self, value: int) -> bytes:
        if value < 256:
            return b"K%c" % value
        return b"M" + struct.pack("<H", value) if value < 65536 else b"J" + struct.pack("<i", value)

    def raw(self, value: bytes) -> bytes:
        length = len(value)
        return (b"U%c" % length if length < 256 else b"T" + struct.pack("<i", length)) + value

    def text(self, value: bytes) -> bytes:
        return self.raw(value) + (self.remember() if len(value) > 1 else b"")

    def items(self, values: Sequence[Any]) -> Iterator[bytes]:
        yield b"]" + self.remember()
        for start in range(0, len(values), GROUP):
            group = values[start : start + GROUP]
            written = [self.text(each) if isinstance(each, bytes) else self.number(each) for each in group]
            yield written[0] + b"a" if len(group) == 1 else b"(" + b"".join(written) + b"e"

    def array(self, value: np.ndarray) -> Iterator[bytes]:
        yield b"cnumpy.core.multiarray\n_reconstruct\n" + self.remember() + b"cnumpy\nndarray\n" + self.remember()
        yield b"K\x00\x85U\x01b\x87R" + self.remember()
        rows, columns = value.shape
        yield b"(K\x01" + self.number(rows) + self.number(columns) + b"\x86cnumpy\ndtype\n" + self.remember()
        yield b"U\x02u1K\x00K\x01\x87R" + self.remember()
        yield b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89" + self.raw(value.tobytes()) + b"tb"


def python_2_pickle(batch: Mapping[str, Any]) -> bytes:
    """A batch as `read_pickle` returns it, in the same order of keys, as the file that it was read from."""
    pickler = Python2Pickler()
    parts = [b"\x80\x02}" + pickler.remember() + b"("]
    for key, value in batch.items():
        parts.append(pickler.text(key.encode()))
        if isinstance(value, bytes):
            parts.append(pickler.text(value))
        else:
            parts += pickler.array(value) if isinstance(value, np.ndarray) else pickler.items(value)
    return b"".join([*parts, b"u."])


def official_batch(
    source: CifarSource,
    title: str,
    images: np.ndarray,
    labels: np.ndarray,
    coarse: np.ndarray | None,
    names: Sequence[bytes],
) -> dict[str, Any]:
    """The content of an official file in the order of its keys; images `[N, 32, 32, 3]`."""
    pixels = images.transpose(0, 3, 1, 2).reshape(len(images), -1)
    if source is CIFAR10:
        return {"batch_label": title.encode(), "labels": labels.tolist(), "data": pixels, "filenames": list(names)}
    return {
        "filenames": list(names),
        "batch_label": title.encode(),
        "fine_labels": labels.tolist(),
        "coarse_labels": [] if coarse is None else coarse.tolist(),
        "data": pixels,
    }


# Two images of three bytes, written by CPython 2.7.18 with NumPy 1.16.6.
WRITTEN_BY_PYTHON_2 = (
    b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x05batchq\x03U\x06labelsq\x04]q\x05(K\x06K\te"
    b"U\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\t"
    b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\nU\x02u1K\x00K\x01\x87Rq\x0b"
    b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06\x00\x01\x02\x03\x04\xfftb"
    b"U\tfilenamesq\x0c]q\r(U\x05a.pngq\x0eU\x05b.pngq\x0feu."
)


def test_what_is_read_from_a_pickle_of_python_2_is_written_to_the_same_bytes() -> None:
    assert python_2_pickle(read_pickle("data_batch_1", WRITTEN_BY_PYTHON_2)) == WRITTEN_BY_PYTHON_2


@pytest.mark.parametrize(
    ("source", "n_images", "md5"),
    [
        (CIFAR10, 1, "fc892ce041d0d66d883310afcceae6bb"),
        (CIFAR10, 1000, "70b20e136c39b13e5d53054424ab50b3"),
        (CIFAR10, 1001, "c7bc47b0ce850509ffa21afc6ebdfe48"),
        (CIFAR10, 2000, "08436adf63933f2316f3024450a25dfe"),
        (CIFAR100, 1, "3794885945e930835285bf60e9ea5c76"),
        (CIFAR100, 1001, "48abc837b1b8190f28d043c3720bc590"),
        (CIFAR100, 1003, "4612b334baea7d5e27892fbc879525de"),
        (CIFAR100, 2000, "1b9ad99cb94e96b85fa585225540afe3"),
    ],
)
def test_files_of_the_official_layout_have_the_bytes_that_python_2_gave_them(
    source: CifarSource, n_images: int, md5: str
) -> None:
    """The sums are those of what CPython 2.7.18 with NumPy 1.16.6 wrote for the same content and order of keys."""
    rows = np.arange(n_images)
    pixels = (np.arange(n_images * 3072) % 251).astype(np.uint8).reshape(n_images, 3, 32, 32)
    title = "testing batch 1 of 1" if source is CIFAR10 else "training batch 1 of 1"
    names = [b"name_%d_s_%06d.png" % (row % 11, row) for row in rows]
    batch = official_batch(source, title, pixels.transpose(0, 2, 3, 1), rows % source.n_classes, rows % 20, names)
    written = python_2_pickle(batch)
    assert hashlib.md5(written, usedforsecurity=False).hexdigest() == md5
    again = read_pickle("test", written)
    assert list(again) == list(batch)
    np.testing.assert_array_equal(again["data"], batch["data"])


def find_names(source: CifarSource, part: str, folder: Path) -> list[bytes] | None:
    """The names of the original images, in order: a list with one name a line, else those in the official archive."""
    archive = source.python
    wanted = [name for name, _ in getattr(archive, part)]
    for place in (folder / source.name, folder):
        if source.name == place.name and (listed := place / f"names-{part}.txt").is_file():
            return listed.read_bytes().split()
        files = [place / archive.folder / name for name in wanted]
        if all(file.is_file() for file in files):
            return [name for file in files for name in read_pickle(file.name, file.read_bytes())["filenames"]]
        if (packed := place / archive.file).is_file():
            with tarfile.open(packed) as tar:
                members = [tar.extractfile(f"{archive.folder}/{name}") for name in wanted]
                contents = [member.read() for member in members if member]
            return [name for data in contents for name in read_pickle(packed.name, data)["filenames"]]
    return None


def test_names_come_from_a_list_or_from_the_official_archive(tmp_path: Path) -> None:
    assert find_names(CIFAR10, "test", tmp_path) is None
    unpacked = tmp_path / "cifar-10-batches-py" / "test_batch"
    unpacked.parent.mkdir()
    unpacked.write_bytes(WRITTEN_BY_PYTHON_2)
    assert find_names(CIFAR10, "test", tmp_path) == [b"a.png", b"b.png"]
    with tarfile.open(tmp_path / "cifar-10-python.tar.gz", "w:gz") as tar:
        tar.add(unpacked, "cifar-10-batches-py/test_batch")
    unpacked.unlink()
    assert find_names(CIFAR10, "test", tmp_path) == [b"a.png", b"b.png"]
    (tmp_path / "cifar10").mkdir()
    (tmp_path / "cifar10" / "names-test.txt").write_text("c.png\nd.png\n")
    assert find_names(CIFAR10, "test", tmp_path) == [b"c.png", b"d.png"]


def title_of(part: str, number: int, n_files: int) -> str:
    return f"{'training' if part == 'train' else 'testing'} batch {number} of {n_files}"


@pytest.mark.slow
@pytest.mark.skipif("NU_ENSEMBLES_DATA" not in os.environ, reason="the real images are not in the repository")
@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize("source", [CIFAR10, CIFAR100], ids=["cifar10", "cifar100"])
def test_the_official_pickles_are_rebuilt_bit_for_bit(source: CifarSource, part: str) -> None:
    names = find_names(source, part, Path(os.environ["NU_ENSEMBLES_DATA"]))
    if names is None:
        pytest.skip(f"needs the names of the images: {source.name}/names-{part}.txt or {source.python.file}")
    fine = cifar.load(source, None, "fine", may_download=False, verbose=0)
    by_superclass = cifar.load(source, None, "coarse", may_download=False, verbose=0) if source.coarse_label else fine
    images, labels = getattr(fine, f"{part}_images"), getattr(fine, f"{part}_labels")
    coarse = getattr(by_superclass, f"{part}_labels")
    assert len(names) == len(images)
    files = getattr(source.python, part)
    size = len(images) // len(files)
    for number, (file, md5) in enumerate(files, 1):
        rows = slice((number - 1) * size, number * size)
        title = title_of(part, number, len(files))
        batch = official_batch(source, title, images[rows], labels[rows], coarse[rows], names[rows])
        assert hashlib.md5(python_2_pickle(batch), usedforsecurity=False).hexdigest() == md5, file


@pytest.mark.slow
def test_everything_but_the_names_has_the_official_length() -> None:
    """The names of CIFAR-100's training images have 1,100,095 characters in all.

    MATLAB gives 7,400,190 bytes for those in the official `train.mat`, of which 104 for each of 50,000 cells and two
    for each character; the official `train` has 155,249,918 bytes.
    """
    lengths = np.full(50_000, 22)
    lengths[:95] += 1
    names = [b"n" * length for length in lengths]
    zeros = np.zeros(50_000, np.int64)
    images = np.zeros((50_000, 32, 32, 3), np.uint8)
    batch = official_batch(CIFAR100, title_of("train", 1, 1), images, zeros, zeros, names)
    assert len(python_2_pickle(batch)) == 155_249_918
