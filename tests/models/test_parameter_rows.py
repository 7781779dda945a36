"""Networks as rows of a matrix, and back."""

from __future__ import annotations

import jax
import numpy as np

from nu_ensembles.models.parameter_rows import parameter_rows, parameters_from_rows

TREE = {"a": np.arange(12, dtype=np.float32).reshape(2, 3, 2), "b": np.array([7, 8], np.float32)}


def test_a_network_is_a_row() -> None:
    assert parameter_rows(TREE, 2).tolist() == [[0, 1, 2, 3, 4, 5, 7], [6, 7, 8, 9, 10, 11, 8]]
    assert parameter_rows(TREE, 1).tolist() == [[0, 1, 2, 3, 4, 5, 7]]


def test_rows_come_back_as_networks_however_many_there_are() -> None:
    rows = parameter_rows(TREE, 2)
    jax.tree.map(np.testing.assert_array_equal, parameters_from_rows(rows, TREE), TREE)
    three = parameters_from_rows(np.stack([rows[0], rows[1], rows[0]]), TREE)
    np.testing.assert_array_equal(three["a"], TREE["a"][[0, 1, 0]])
    assert three["b"].dtype == np.float32
