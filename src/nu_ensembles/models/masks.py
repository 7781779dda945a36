"""Random masks for dropout, drawn so that a wide ResNet spends little of its training step on them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array
from jax.custom_batching import custom_vmap

from nu_ensembles.backend import Backend

BITS_A_BLOCK = 64
# A decision takes eight random bits where rounding to them changes the rarer outcome's probability by no more than this
# share, and else sixteen.
ROUNDING = 0.01


class Kept(NamedTuple):
    """What dropout keeps: a bool `mask`, and its expected `share`, by which the kept values are divided."""

    mask: Array
    share: float


def keep_masks(key: Array, n_masks: int, shape: tuple[int, ...], keep: float, stream: int = 0) -> list[Kept]:
    """Random masks of a shape, each true with probability `keep`, which is rounded to their share.

    Eight decisions from every threefry block, or four: `jax.random.bernoulli` spends a whole block on each, which took
    a fourteenth of a wide ResNet's training step. Several masks of one draw are hardly more to compile than one,
    whose operations are counted in hundreds.

    Args:
      stream: masks of different streams are independent though they share a key.
    """
    *leading, last = shape
    bits = 8 if abs(round(keep * 256) / 256 - keep) <= ROUNDING * min(keep, 1 - keep) else 16
    threshold = max(1, round(keep * 2**bits))
    at_once = BITS_A_BLOCK // bits
    draw = _packed_decisions((n_masks, *leading, -(-last // at_once)), bits, threshold, stream)

    def unpacked(packed: Array) -> Array:
        apart = packed[..., None] >> jnp.arange(at_once, dtype=jnp.uint8) & jnp.uint8(1)
        return apart.reshape(*leading, -1)[..., :last] != 0

    return [Kept(unpacked(packed), threshold / 2**bits) for packed in draw(jax.random.key_data(key))]


@functools.cache
def _packed_decisions(
    shape: tuple[int, ...], bits: int, threshold: int, stream: int
) -> Callable[[Array], tuple[Array, ...]]:
    """Key data `[2]` -> bytes of a shape, apart along its first axis; each has a block's decisions, first lowest."""

    def decided(first: Array, second: Array, counter: Array, shape: tuple[int, ...]) -> Array:
        first, second, counter = (jnp.broadcast_to(each, shape) for each in (first, second, counter))
        packed = jnp.zeros(shape, jnp.uint32)
        for place, word in enumerate(threefry2x32((first, second), (counter, jnp.full_like(counter, stream)))):
            for part in range(32 // bits):
                number = word >> jnp.uint32(part * bits) & jnp.uint32(2**bits - 1)
                keep = (number < jnp.uint32(threshold)).astype(jnp.uint32)
                packed |= keep << jnp.uint32(place * (32 // bits) + part)
        return packed.astype(jnp.uint8)

    def drawn(first: Array, second: Array, counter: Array, shape: tuple[int, ...]) -> tuple[Array, ...]:
        # Left to itself the compiler would draw a block anew for each of its decisions, wherever the mask is read. A
        # barrier keeps it from that on a GPU; on a CPU barriers are dropped, but nothing is fused with a loop.
        if not Backend.current().keeps_barriers:
            flat = counter.reshape(-1, *counter.shape[2:])
            together = jax.lax.map(lambda row: decided(first, second, row, shape[2:]), flat).reshape(shape)
            return tuple(together)
        # Masks apart behind the barrier: what reads parts of one array the compiler would join into one kernel.
        return jax.lax.optimization_barrier(tuple(decided(first, second, counter, shape)))

    def counted() -> Array:
        # Written number by number, not as one long row that is reshaped, so that the compiler can lay it out freely.
        counter = jnp.zeros(shape, jnp.uint32)
        for axis, size in enumerate(shape):
            counter = counter * jnp.uint32(size) + jax.lax.broadcasted_iota(jnp.uint32, shape, axis)
        return counter

    @custom_vmap
    def one_member(key: Array) -> tuple[Array, ...]:
        return drawn(key[0], key[1], counted(), shape)

    @one_member.def_vmap
    def many_members(n_members: int, _: list[bool], keys: Array) -> tuple[tuple[Array, ...], tuple[bool, ...]]:
        # Members stand before the channels, as in what grouped convolutions give and what is masked: masks that lay
        # member after member doubled the time of whatever read them.
        first, second = keys[:, 0, None], keys[:, 1, None]
        beside = drawn(first, second, counted()[..., None, :], (*shape[:-1], n_members, shape[-1]))
        return tuple(jnp.moveaxis(each, -2, 0) for each in beside), (True,) * len(beside)

    return one_member


def threefry2x32(key: tuple[Array, Array], block: tuple[Array, Array]) -> tuple[Array, Array]:
    """The two random words of a block of two counters, uint32 of one shape (Salmon et al. 2011, 20 rounds).

    The bits of JAX's own. That one is a loop on a CPU, which takes three times as long to run and eight to compile as
    the rounds written out.
    """
    schedule = (*key, key[0] ^ key[1] ^ jnp.uint32(0x1BD11BDA))
    first, second = block[0] + key[0], block[1] + key[1]
    for group in range(5):
        for rotation in ((13, 15, 26, 6), (17, 29, 16, 24))[group % 2]:
            first = first + second
            second = first ^ (second << jnp.uint32(rotation) | second >> jnp.uint32(32 - rotation))
        first = first + schedule[(group + 1) % 3]
        second = second + schedule[(group + 2) % 3] + jnp.uint32(group + 1)
    return first, second


def drawn_by_place() -> bool:
    """Whether JAX's draws depend on their places alone, which is its setting; in its older layout they also depend on
    how many are drawn.
    """
    settings: Any = jax.config
    return bool(settings.jax_threefry_partitionable)
