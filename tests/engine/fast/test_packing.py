"""Small parameters packed into one vector: they come back as they were, and AdamW does not notice."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

from nu_ensembles import models
from nu_ensembles.engine.fast import packing
from nu_ensembles.engine.fast.packing import pack, unpack
from nu_ensembles.engine.run import Run
from nu_ensembles.methods import Nu

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


def test_adamw_trains_the_same_network_packed_or_as_an_optimiser_that_the_user_brings(
    assembled, largest_difference, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packing, "SMALL", 8)
    model = models.mlp(3, hidden=(9,))  # no other test has it, so none meets what was compiled with this limit
    packed, brought = (
        Run(ready.program, ready.lanes, ready.data)
        for ready in (
            assembled(Nu(0.1), model=model, weight_decay=0.1),
            assembled(Nu(0.1), model=model, optimiser=optax.adamw(0.01, weight_decay=0.1)),
        )
    )
    moments = packed.state.optimiser_state[0].mu
    assert [leaf.shape for leaf in moments.large] == [(3, 9), (3, 4, 9), (3, 9, 3)]
    assert moments.small.shape == (3, 3)
    for run in (packed, brought):
        run.advance(20)
    assert jax.tree.structure(packed.state.params) == jax.tree.structure(brought.state.params)
    assert largest_difference(packed.state.params, brought.state.params) < 1e-5
