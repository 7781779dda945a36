"""What lanes draw (initial networks, rows, keys), through a program of a single lane, one lane after another.

XLA's CPU compiler takes twice to four times as long over a program that draws for thirty lanes as over that of one, and
the program of one serves the folds of a search and the members of the ensemble alike. Drawing is little work, and its
bits are the same.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.backend import Backend

# JAX's usual generator. Others ("rbg") give a lane other bits alone than beside others.
SAME_ALONE = "threefry2x32"
# More lanes are drawn at once: so many calls take longer than the compilation that they save.
MOST_LANES = 64


def drawn_for_lanes(draw: Callable[..., Any], keys: Array, *of_lanes: Array | np.ndarray) -> Any:
    """What `draw(keys, *of_lanes)` gives for lanes, a tree of `[R, …]`; each lane depends on its own arguments alone.

    Args:
      keys: `[R]`; of_lanes: arrays `[R, …]`.
    """
    impl = str(jax.random.key_impl(keys))
    one_by_one = Backend.current().draws_lane_by_lane and impl == SAME_ALONE and len(keys.devices()) == 1
    if not one_by_one or not 1 < len(keys) <= MOST_LANES:
        return draw(keys, *of_lanes)
    words: Any = _words(keys)
    stacked = [np.asarray(each) for each in of_lanes]
    lanes = [
        draw(jax.random.wrap_key_data(words[lane], impl=impl), *(each[lane] for each in stacked))
        for lane in (slice(number, number + 1) for number in range(len(words)))
    ]
    return jax.tree.map(_joined, *lanes)


def _joined(*parts: Array) -> Array:
    """Arrays or keys `[1, …]` as one, by NumPy: a concatenation by JAX would be one more program."""
    if jnp.issubdtype(parts[0].dtype, jax.dtypes.prng_key):
        words = np.concatenate([_words(each) for each in parts])
        return jax.random.wrap_key_data(jax.device_put(words), impl=str(jax.random.key_impl(parts[0])))
    return jax.device_put(np.concatenate([np.asarray(each) for each in parts]))


def _words(keys: Array) -> np.ndarray:
    return np.asarray(jax.random.key_data(keys))
