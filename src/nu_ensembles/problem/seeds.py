"""Seeds: a whole number or a JAX key, as one threefry key."""

from __future__ import annotations

import operator
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.checks import check_whole, shown
from nu_ensembles.errors import InputError
from nu_ensembles.problem.process import refuse_forks

THREEFRY = "threefry2x32"


def random_key(seed: int | Array | Sequence[int]) -> Array:
    """A threefry key from a seed; a key passes through, and so do its two words.

    Threefry whatever the user's default: the other generators draw differently under `vmap`, which would make
    the plans of the engine disagree. Every training begins here, so a process in which it would hang is told so.
    """
    refuse_forks()
    if isinstance(seed, list | tuple) and len(seed) == 2:
        seed = tuple(check_whole(word, "each of the two words of a key", least=0, most=2**32 - 1) for word in seed)
        seed = jnp.asarray(np.asarray(seed, np.uint32))
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
        raise InputError(f"A seed is a whole number or a jax.random key, not {shown(seed)}.") from None
    # JAX would cut a longer one to its last 32 bits, so that different seeds gave the same draws.
    if not -(1 << 31) <= number < 1 << 32:
        raise InputError(f"A seed has at most 32 bits, and {shown(number)} has more; use one below {1 << 32}.")
    return jax.random.key(number, impl=THREEFRY)


def plain_seed(seed: int | Array | Sequence[int]) -> int | list[int]:
    """The seed as JSON knows it, and as `random_key` takes it again: a number, or the two words of a key."""
    first, second = np.asarray(jax.random.key_data(random_key(seed))).tolist()
    return second if first == 0 else [first, second]
