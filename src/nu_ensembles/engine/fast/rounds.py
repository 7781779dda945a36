"""A loop in rounds of several steps, for GPUs: to look whether it is at its end is a message to the host and an answer.

The last round may hold steps beyond the end; they change nothing. Batches of a round are prepared together, in as many
small kernels as those of one step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

STEPS_A_ROUND = 16
# Batches of a round are prepared together if they are no larger than this.
PREPARED_BYTES = 1 << 28


def steps_in_rounds(
    one_step: Callable[..., Any], prepared: Callable[[Array], tuple[Any, Array]], carry: Any, start: Array, end: Array
) -> Any:
    """`carry` after steps start … end-1.

    Args:
      one_step: `(carry, step, batch, keys, counts) -> carry`; where the bool `counts` is false it changes nothing.
      prepared: `step -> (batch, keys)`.
    """
    at_once = STEPS_A_ROUND * _n_bytes(jax.eval_shape(prepared, start)) <= PREPARED_BYTES

    def one_round(number: Array, carry: Any) -> Any:
        first = start + number * STEPS_A_ROUND
        of_round = jax.vmap(prepared)(first + jnp.arange(STEPS_A_ROUND)) if at_once else None

        def step_of_round(i: Array, carry: Any) -> Any:
            step = first + i
            batch, keys = prepared(step) if of_round is None else jax.tree.map(lambda leaf: leaf[i], of_round)
            return one_step(carry, step, batch, keys, step < end)

        return jax.lax.fori_loop(0, STEPS_A_ROUND, step_of_round, carry)

    n_rounds = -(-(end - start) // STEPS_A_ROUND)
    return jax.lax.fori_loop(0, n_rounds, one_round, carry)


def _n_bytes(shapes: Any) -> int:
    leaves = [leaf for leaf in jax.tree.leaves(shapes) if not jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key)]
    return sum(leaf.size * leaf.dtype.itemsize for leaf in leaves)
