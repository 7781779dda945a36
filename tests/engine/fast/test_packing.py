"""Small parameters packed into one vector: they come back as they were."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.engine.fast import packing
from nu_ensembles.engine.fast.packing import pack, unpack

SMALL, LARGE = np.arange(6, dtype=np.float32).reshape(2, 3), np.ones((65, 64), np.float32)

TREES = {
    "both": {"a": SMALL, "b": [LARGE, SMALL[0]], "c": (2 * LARGE, np.float32(7))},
    "no large leaves": {"a": SMALL, "b": np.float32(7)},
    "no small leaves": [LARGE, 3 * LARGE],
    "no leaves": (),
}


@pytest.mark.parametrize("name", TREES)
def test_what_was_packed_comes_back_as_it_was(name: str) -> None:
    tree = jax.tree.map(jnp.asarray, TREES[name])
    found = unpack(pack(tree), tree)
    assert jax.tree.structure(found) == jax.tree.structure(tree)
    jax.tree.map(np.testing.assert_array_equal, found, tree)


def test_small_leaves_are_one_vector_and_large_ones_stay() -> None:
    packed = pack(jax.tree.map(jnp.asarray, TREES["both"]))
    np.testing.assert_array_equal(packed.small, [0, 1, 2, 3, 4, 5, 0, 1, 2, 7])
    assert [leaf.shape for leaf in packed.large] == [(65, 64), (65, 64)]
    assert pack(jax.tree.map(jnp.asarray, TREES["no small leaves"])).small is None


def test_a_leaf_of_just_the_limit_is_small() -> None:
    at_limit, above = jnp.zeros(packing.SMALL), jnp.zeros(packing.SMALL + 1)
    packed = pack([at_limit, above])
    assert packed.small is not None
    assert packed.small.shape == (packing.SMALL,)
    assert [leaf.shape for leaf in packed.large] == [(packing.SMALL + 1,)]
