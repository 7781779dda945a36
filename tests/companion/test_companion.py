"""A forest beside the networks: its probabilities, the pool, and the arrays that it is kept as."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from nu_ensembles.companion import Companion, Forest, grow
from nu_ensembles.errors import InputError


@pytest.fixture(scope="module")
def forest(digits) -> Forest:
    x, y = digits
    return grow(x[:100], y[:100], 10, n_trees=10, seed=0).forest


def test_a_class_that_no_row_has_keeps_its_column_and_gets_one_vote_of_each_forest() -> None:
    x, y = np.arange(20.0)[:, None], np.arange(20) % 2 * 2
    grown = grow(x, y, 3, n_trees=10, seed=0, temperature_prior=1e12)
    probabilities = grown.forest.probabilities(x)
    assert probabilities.shape == (20, 3)
    np.testing.assert_allclose(probabilities[:, 1], 1 / 13, rtol=1e-3)
    assert grown.out_of_bag.shape == (20, 3)


def test_rows_that_count_more_lead_the_trees() -> None:
    x, y = np.zeros((20, 1)), np.arange(20) % 2
    weight = np.where(y == 1, 9.0, 1.0)
    forest = grow(x, y, 2, n_trees=200, seed=0, weight=weight, temperature_prior=1e12).forest
    assert forest.probabilities(x[:1])[0, 1] == pytest.approx(0.9, abs=0.04)


@pytest.mark.parametrize(
    ("weight", "expected"),
    [(0.0, [0.8, 0.2]), (1.0, [0.5, 0.5]), (0.5, [2 / 3, 1 / 3])],
)
def test_the_pool_is_geometric(weight: float, expected: list[float]) -> None:
    # Trees of one leaf that holds both classes alike.
    forest = grow(np.zeros((4, 1)), np.array([0, 1, 0, 1]), 2, n_trees=200, seed=1, temperature_prior=1e12).forest
    assert forest.probabilities(np.zeros((1, 1)))[0] == pytest.approx([0.5, 0.5], abs=0.05)
    even = Forest(forest.trees, 1e6, 1)
    pooled = Companion(even, weight).pooled(np.array([[0.8, 0.2]]), np.zeros((1, 1)))
    np.testing.assert_allclose(pooled, [expected], atol=1e-4)


def test_what_is_stored_gives_the_same_companion_again(forest, digits) -> None:
    companion, networks = Companion(forest, 0.4), np.full((30, 10), 0.1)
    numbers = companion.numbers()
    assert numbers == {"kind": "forest", "weight": 0.4, "temperature": forest.temperature}
    again = Companion.restored(numbers["weight"], numbers["temperature"], companion.arrays(), 64, 10)
    np.testing.assert_array_equal(again.pooled(networks, digits[0][:30]), companion.pooled(networks, digits[0][:30]))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"n_classes": 9}, "tells 10 classes apart, and the networks 9"),
        ({"n_features": 3}, "do not fit together"),
        ({"temperature": 0.0}, "The temperature of the forest is 0.0"),
        ({"arrays": {}}, "A forest has the arrays feature, leaf, left"),
    ],
)
def test_what_was_altered_or_belongs_to_other_networks_is_refused(change: dict[str, Any], told: str, forest) -> None:
    arrays = Companion(forest, 0.4).arrays()
    given = {"weight": 0.4, "temperature": 1.0, "arrays": arrays, "n_features": 64, "n_classes": 10}
    with pytest.raises(InputError, match=told):
        Companion.restored(**{**given, **change})
