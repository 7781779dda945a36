"""The official pickles are read; one that holds anything else is refused before it can do anything."""

from __future__ import annotations

import os
import pickle
from pathlib import Path

import numpy as np
import pytest

from nu_ensembles.datasets.cifar_pickles import read_pickle
from nu_ensembles.errors import DamagedFileError, InputError

# Two images of three bytes, written by CPython 2.7.18 with NumPy 1.16.6: protocol 2, texts as bytes.
PYTHON_2 = (
    b"\x80\x02}q\x01(U\x0bbatch_labelq\x02U\x05batchq\x03U\x06labelsq\x04]q\x05(K\x06K\te"
    b"U\x04dataq\x06cnumpy.core.multiarray\n_reconstruct\nq\x07cnumpy\nndarray\nq\x08K\x00\x85U\x01b\x87Rq\t"
    b"(K\x01K\x02K\x03\x86cnumpy\ndtype\nq\nU\x02u1K\x00K\x01\x87Rq\x0b"
    b"(K\x03U\x01|NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb\x89U\x06\x00\x01\x02\x03\x04\xfftb"
    b"U\tfilenamesq\x0c]q\r(U\x05a.pngq\x0eU\x05b.pngq\x0feu."
)


def test_a_pickle_of_python_2_is_read_with_its_array_of_bytes() -> None:
    batch = read_pickle("data_batch_1", PYTHON_2)
    assert batch["labels"] == [6, 9]
    assert batch["filenames"] == [b"a.png", b"b.png"]
    assert batch["data"].dtype == np.uint8
    assert batch["data"].tolist() == [[0, 1, 2], [3, 4, 255]]


class Harmful:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_a_pickle_that_would_run_a_function_is_refused_and_runs_nothing(protocol: int, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    data = pickle.dumps({"data": Harmful(trap)}, protocol=protocol)
    with pytest.raises(InputError, match=r"data_batch_1 asks for .*mkdir, which no CIFAR file does"):
        read_pickle("data_batch_1", data)
    assert not trap.exists()


@pytest.mark.parametrize(
    "name", [b"builtins\neval", b"numpy\nload", b"numpy\nfromfile", b"numpy.core.multiarray\nscalar"]
)
def test_no_other_name_is_known_not_even_of_numpy(name: bytes) -> None:
    with pytest.raises(InputError, match="no CIFAR file does"):
        read_pickle("test_batch", b"\x80\x02c" + name + b"\n.")


def test_an_array_of_objects_or_of_another_size_is_refused() -> None:
    with pytest.raises(InputError, match="something else than bytes"):
        read_pickle("test_batch", PYTHON_2.replace(b"U\x02u1", b"U\x02O8"))
    with pytest.raises(InputError, match="something else than bytes"):
        read_pickle("test_batch", PYTHON_2.replace(b"(K\x01K\x02K\x03\x86", b"(K\x01K\x02K\x09\x86"))


def test_a_file_that_is_no_dictionary_is_refused() -> None:
    with pytest.raises(InputError, match="no dictionary"):
        read_pickle("test_batch", pickle.dumps([1, 2]))


@pytest.mark.parametrize("length", [0, 1, 30, 100, len(PYTHON_2) - 1])
def test_a_pickle_that_was_cut_off_is_named(length: int) -> None:
    with pytest.raises(DamagedFileError, match="test_batch is not a complete CIFAR file"):
        read_pickle("test_batch", PYTHON_2[:length])


def test_a_reference_to_an_object_stored_elsewhere_is_refused() -> None:
    with pytest.raises(InputError, match="stored elsewhere"):
        read_pickle("test_batch", b"\x80\x02U\x01aQ.")
