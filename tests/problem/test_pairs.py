"""Sparse rows as pairs of column and value, and how they are scaled."""

import numpy as np
import pytest
import scipy.sparse

from nu_ensembles.errors import InputError
from nu_ensembles.problem import Standardisation
from nu_ensembles.problem.pairs import as_sparse, fit_scales, fullest, pairs_of, thrown_together, widened
from nu_ensembles.tables import SparseRows


def sparse(rows) -> SparseRows:
    return SparseRows.of(scipy.sparse.csr_array(np.array(rows, float)), "X")


def test_a_row_is_pairs_of_column_and_value_filled_up_with_zeros() -> None:
    rows = sparse([[0, 3, 0, 4], [5, 0, 0, 0], [0, 0, 0, 0]])
    assert fullest(rows) == 2
    assert pairs_of(rows, None).tolist() == [[[1, 3], [3, 4]], [[0, 5], [0, 0]], [[0, 0], [0, 0]]]
    assert widened(pairs_of(rows, None), 3)[0].tolist() == [[1, 3], [3, 4], [0, 0]]


def test_columns_are_divided_as_dense_ones_that_are_mostly_zero() -> None:
    drawn = np.random.default_rng(0)
    dense = drawn.normal(5, 2, (40, 6)) * (drawn.random((40, 6)) < 0.3)
    dense[:, 2] = 0
    expected = Standardisation.fit(dense[:30], dense[30:])
    found = fit_scales(sparse(dense[:30]), sparse(dense[30:]))
    np.testing.assert_array_equal(expected.mean, 0)
    np.testing.assert_array_equal(found.mean, 0)
    np.testing.assert_allclose(found.scale, expected.scale, rtol=1e-12)


def test_a_full_column_is_divided_and_not_centred() -> None:
    found = fit_scales(sparse([[10.0], [10.0], [13.0], [7.0]]))
    assert (found.mean.tolist(), found.scale.tolist()) == ([0.0], [pytest.approx(104.5**0.5 / 2)])


def test_rows_thrown_together_differ_where_they_do() -> None:
    pairs = pairs_of(sparse(np.eye(3, 9)), None)
    found = thrown_together(pairs)
    assert found.shape == (3, 256)
    assert np.abs(found).sum(axis=1).tolist() == [1, 1, 1]
    assert len(np.unique(np.abs(found).argmax(axis=1))) == 3


def test_rows_beside_sparse_ones_must_be_a_matrix_of_as_many_columns() -> None:
    assert as_sparse(np.eye(2), "U", 2).dense().tolist() == np.eye(2).tolist()
    with pytest.raises(InputError, match="U has 3 columns where 2 are expected"):
        as_sparse(np.eye(3), "U", 2)
    with pytest.raises(InputError, match=r"U is an array of shape \(2, 2, 2\) beside a large sparse matrix"):
        as_sparse(np.zeros((2, 2, 2)), "U", 2)
