"""Which rows a member sees in which step: a function of its key and the step number alone.

Row orders are not carried along: step t of a member reads positions t*B … t*B+B-1 of the endless stream of
passes over its rows, each pass a fresh permutation. So a run can stop and go on anywhere, sets smaller than a
batch wrap around, and no row is favoured.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax import Array

# Above this many rows a set is not padded: the memory would cost more than another compilation.
PAD_LIMIT = 1 << 16
PACKED_LIMIT = 1 << 12


def padded_size(n_rows: int) -> int:
    """The next power of two, so that sets of similar size share one compiled program."""
    return n_rows if n_rows > PAD_LIMIT else 1 << max(n_rows - 1, 0).bit_length()


def row_order(key: Array, n_rows: Array, n_padded: int) -> Array:
    """A random order of 0 … n_rows-1, then the padding; int32 `[n_padded]`."""
    row = jnp.arange(n_padded, dtype=jnp.uint32)
    last = jnp.uint32(0xFFFFFFFF)
    draws = jax.random.bits(key, (n_padded,), jnp.uint32)
    if n_padded <= PACKED_LIMIT:
        # The row number in the low bits of its draw: sorting one array is five times faster than sorting pairs, and
        # with 20 random bits left a tie, which falls back on the row number, is rare.
        low_bits = jnp.uint32(padded_size(n_padded) - 1)
        packed = jnp.where(row < n_rows, (draws & ~low_bits) | row, last - low_bits + row)
        return (jnp.sort(packed) & low_bits).astype(jnp.int32)
    # The sort is stable and the padding comes last, so even a row that draws the largest number stays in front.
    return jnp.argsort(jnp.where(row < n_rows, draws, last), stable=True).astype(jnp.int32)


def batch_rows(
    key: Array,
    first_step: Array,
    n_steps: int,
    batch_size: int,
    n_rows: Array,
    n_padded: int,
    least_rows: int,
) -> Array:
    """The rows of one member's batches in `n_steps` consecutive steps.

    Args:
      key: the member's key for this set.
      first_step: scalar int.
      n_rows: scalar int, how many of the `n_padded` rows exist.
      least_rows: a static lower bound of `n_rows`, which bounds the number of passes.

    Returns:
      int32 `[n_steps, batch_size]`, values in 0 … n_rows-1.
    """
    first_pass = first_step * batch_size // n_rows
    orders = pass_orders(key, first_pass, passes_in(n_steps, batch_size, least_rows), n_rows, n_padded)
    return rows_in_orders(orders, first_step, n_steps, batch_size, n_rows)


def passes_in(n_steps: int, batch_size: int, least_rows: int) -> int:
    """The most passes over at least so many rows that consecutive steps can touch."""
    return -(-n_steps * batch_size // least_rows) + 1


def pass_orders(key: Array, first_pass: Array, n_passes: int, n_rows: Array, n_padded: int) -> Array:
    """The orders of rows in consecutive passes, int32 `[n_passes, n_padded]`."""
    pass_keys = jax.vmap(lambda p: jax.random.fold_in(key, p))(first_pass + jnp.arange(n_passes))
    return jax.vmap(lambda k: row_order(k, n_rows, n_padded))(pass_keys)


def rows_in_orders(orders: Array, first_step: Array, n_steps: int, batch_size: int, n_rows: Array) -> Array:
    """The rows of consecutive steps, int32 `[n_steps, batch_size]`, from the orders of the passes that they touch."""
    position = first_step * batch_size % n_rows + jnp.arange(n_steps * batch_size)
    return orders[position // n_rows, position % n_rows].reshape(n_steps, batch_size)
