"""What lanes draw one after another has the bits of what they draw together."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from nu_ensembles.engine.fast.lane_by_lane import drawn_for_lanes

N_LANES = 4


@jax.jit
def draw(keys: Array, scale: Array) -> dict[str, Array]:
    def one_lane(key: Array, scale: Array) -> dict[str, Array]:
        normal, order = jax.random.split(key)
        start = jax.nn.initializers.lecun_normal()(normal, (5, 3))
        return {"start": scale * start, "order": jax.random.permutation(order, 7), "keys": jax.random.split(key, 2)}

    return jax.vmap(one_lane)(keys, scale)


def words(leaf: Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="a GPU draws all lanes at once")
@pytest.mark.parametrize(("impl", "lanes_a_call"), [("threefry2x32", [1] * N_LANES), ("rbg", [N_LANES])])
def test_lane_by_lane_is_bit_for_bit_what_all_draw_at_once(impl: str, lanes_a_call: list[int]) -> None:
    calls: list[int] = []
    keys, scale = jax.random.split(jax.random.key(3, impl=impl), N_LANES), np.arange(N_LANES, dtype=np.float32)

    def counted(*of_lanes: Any) -> Any:
        calls.append(len(of_lanes[0]))
        return draw(*of_lanes)

    one_by_one, at_once = drawn_for_lanes(counted, keys, scale), draw(keys, scale)
    assert calls == lanes_a_call
    for mine, theirs in zip(jax.tree.leaves(one_by_one), jax.tree.leaves(at_once), strict=True):
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(words(mine), words(theirs))
