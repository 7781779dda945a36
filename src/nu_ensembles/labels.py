"""Random labels for unlabelled points (Algorithm 1, line 4).

Every unlabelled point draws K labels from {0, …, c-1} without replacement and hands one to each member, so
no two of up to c members are ever asked to fit the same label on the same point.
"""

from __future__ import annotations

import operator

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.errors import InputError


def random_key(seed: int | Array) -> Array:
    """A threefry key from a seed; a key passes through.

    Threefry whatever the user's default: the other generators draw differently under `vmap`, which would make
    the plans of the engine disagree.
    """
    if isinstance(seed, Array):
        if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
            return seed
        if seed.shape == (2,) and seed.dtype == jnp.uint32:
            return jax.random.wrap_key_data(seed, impl="threefry2x32")
    try:
        return jax.random.key(operator.index(seed), impl="threefry2x32")  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise InputError(f"A seed is a whole number or a jax.random key, not {seed!r}.") from None


def random_labels(seed: int | Array, n_points: int, n_classes: int, n_members: int) -> Array:
    """Draws the label that each member fits on each unlabelled point.

    With more members than classes, every consecutive block of `n_classes` members is one permutation. Members
    0 … k-1 get the same labels whatever the number of members.

    The published labels are those of seed 100 under `jax.threefry_partitionable(False)`, the generator layout
    of the authors' time.

    Args:
      seed: a whole number or a `jax.random` key.
      n_points: how many unlabelled points (m).
      n_classes: how many classes (c).
      n_members: how many members (K).

    Returns:
      int32 `[n_members, n_points]`.
    """
    for name, value, least in (
        ("n_points", n_points, 0),
        ("n_classes", n_classes, 1),
        ("n_members", n_members, 1),
    ):
        if value < least:
            raise InputError(f"{name} must be at least {least}, not {value}.")
    key = random_key(seed)
    n_blocks = -(-n_members // n_classes)
    ranked = jnp.tile(jnp.arange(n_classes, dtype=jnp.int32)[:, None], (1, n_points))
    # The first block uses the key itself, so that up to n_classes members match the published labels.
    block_keys = [key, *(jax.random.fold_in(key, block) for block in range(1, n_blocks))]
    # independent=True shuffles each column on its own; without it every point would get the same order.
    blocks = [jax.random.permutation(k, ranked, axis=0, independent=True) for k in block_keys]
    return jnp.concatenate(blocks)[:n_members]
