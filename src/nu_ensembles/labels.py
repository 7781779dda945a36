"""Random labels for unlabelled points (Algorithm 1, line 4).

Every unlabelled point draws K labels from {0, …, c-1} without replacement and hands one to each member, so
no two of up to c members are ever asked to fit the same label on the same point.
"""

from __future__ import annotations

import operator
from functools import partial

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.errors import InputError
from nu_ensembles.inputs import check_whole

THREEFRY = "threefry2x32"


def random_key(seed: int | Array) -> Array:
    """A threefry key from a seed; a key passes through.

    Threefry whatever the user's default: the other generators draw differently under `vmap`, which would make
    the plans of the engine disagree.
    """
    if isinstance(seed, Array):
        if jnp.issubdtype(seed.dtype, jax.dtypes.prng_key):
            if seed.shape != () or str(jax.random.key_impl(seed)) != THREEFRY:
                raise InputError(
                    f"A key that serves as a seed is one key, made by jax.random.key(…, impl={THREEFRY!r})."
                )
            return seed
        if seed.shape == (2,) and seed.dtype == jnp.uint32:
            return jax.random.wrap_key_data(seed, impl=THREEFRY)
    try:
        number = operator.index(seed)  # pyright: ignore[reportArgumentType]
    except TypeError:
        raise InputError(f"A seed is a whole number or a jax.random key, not {seed!r}.") from None
    # JAX would cut a longer one to its last 32 bits, so that different seeds gave the same draws.
    if not -(1 << 31) <= number < 1 << 32:
        raise InputError(f"A seed has at most 32 bits, and {number} has more; use one below {1 << 32}.")
    return jax.random.key(number, impl=THREEFRY)


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
    n_points = check_whole(n_points, "n_points", least=0)
    n_classes, n_members = check_whole(n_classes, "n_classes"), check_whole(n_members, "n_members")
    return _drawn(random_key(seed), n_points, n_classes, n_members)


# Compiled as a whole: its operations one by one would be ten small programs.
@partial(jax.jit, static_argnums=(1, 2, 3))
def _drawn(key: Array, n_points: int, n_classes: int, n_members: int) -> Array:
    n_blocks = -(-n_members // n_classes)
    ranked = jnp.tile(jnp.arange(n_classes, dtype=jnp.int32)[:, None], (1, n_points))
    # The first block uses the key itself, so that up to n_classes members match the published labels.
    later = jax.vmap(partial(jax.random.fold_in, key))(jnp.arange(1, n_blocks))
    # independent=True shuffles each column on its own; without it every point would get the same order.
    shuffled = partial(jax.random.permutation, x=ranked, axis=0, independent=True)
    blocks = jax.vmap(shuffled)(jnp.concatenate([key[None], later]))
    return blocks.reshape(n_blocks * n_classes, n_points)[:n_members]
