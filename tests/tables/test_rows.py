"""What users hand in as rows, and what they say of its columns."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse

from nu_ensembles.errors import InputError
from nu_ensembles.tables import RawTable, SparseRows, read_column_types, rows_of
from nu_ensembles.tables.column import encoded


def test_sparse_matrices_are_made_dense_up_to_a_size() -> None:
    sparse = scipy.sparse.csr_array(np.array([[0, 1], [2, 0]], np.float32))
    found = rows_of(sparse, "X")
    assert (found.tolist(), found.dtype) == ([[0, 1], [2, 0]], np.float32)
    assert isinstance(rows_of(scipy.sparse.csr_array((1 << 14, 1 << 13)), "X"), np.ndarray)


def test_larger_ones_stay_sparse_without_stored_zeros() -> None:
    entries = [1.0, 2.0, 0.0, 5.0], ([0, 0, 1, 2], [7, 7, 3, 0])
    found = rows_of(scipy.sparse.coo_array(entries, shape=((1 << 24) + 1, 8)), "X")
    assert isinstance(found, SparseRows)
    assert (found.shape, found.matrix.nnz, len(found)) == (((1 << 24) + 1, 8), 2, (1 << 24) + 1)
    assert found[[0, 2]].dense().tolist() == [[0, 0, 0, 0, 0, 0, 0, 3], [5, 0, 0, 0, 0, 0, 0, 0]]


@pytest.mark.parametrize(
    ("value", "shape", "sentence"),
    [
        (np.nan, (1 << 24, 16), "value that is not finite, the first in row 5; in one so large gaps are not filled"),
        (np.uint8(3), (1 << 24, 16), r"X is a sparse matrix of bytes, .* give numbers, as in x.astype\('float32'\)"),
        (1.0, (16, (1 << 24) + 1), "X has 16,777,217 columns, and sparse rows may have 16,777,216"),
    ],
)
def test_sparse_rows_that_cannot_be_used_are_refused(value: Any, shape: tuple[int, int], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        rows_of(scipy.sparse.csr_array((np.array([value]), ([5], [2])), shape=shape), "X")


def test_columns_are_declared_by_name() -> None:
    said = {"zip": "category", "size": ["S", "M", "L"], "grade": (1, 2, 3)}
    assert read_column_types(said) == {
        "zip": ("category", ()),
        "size": ("ordered", ("S", "M", "L")),
        "grade": ("ordered", ("1", "2", "3")),
    }


@pytest.mark.parametrize(
    ("types", "sentence"),
    [
        ({"zip": "categroy"}, "Unknown type of the column 'zip', 'categroy'. Did you mean 'category'"),
        ({"size": ["S"]}, "levels of 'size' in column_types must be two or more different ones"),
        ({"size": ["S", "S", "M"]}, "two or more different ones, in order"),
        (["zip"], "column_types must say what columns are"),
    ],
)
def test_what_makes_no_sense_is_refused(types: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        read_column_types(types)


def test_a_declared_column_must_be_there() -> None:
    table = RawTable((encoded("zip", ["1", "2"]),))
    with pytest.raises(InputError, match=r"X has no column 'Zip' to declare \(is it 'zip'\?\)"):
        table.declared({"Zip": ("category", ())}, "X")


def test_rows_are_taken_by_slice_number_or_mask() -> None:
    table = RawTable.of_numbers(np.arange(6.0).reshape(3, 2), ["a", "b"])
    for rows in (slice(1, None), np.array([1, 2]), np.array([False, True, True]), (np.array([1, 2]), ...)):
        assert np.asarray(table[rows]).tolist() == [[2, 3], [4, 5]]
    assert (len(table), table.shape, table.names) == (3, (3, 2), ("a", "b"))


def test_an_array_is_made_of_numbers_only() -> None:
    with pytest.raises(InputError, match="The columns 'c' hold no numbers"):
        np.asarray(RawTable((encoded("c", ["x"]),)))
