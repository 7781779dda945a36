"""Masks of dropout: really random, of the share they say, and the same for a member whoever is beside it."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array
from jax.extend.random import threefry_2x32

from nu_ensembles.models.masks import keep_masks, threefry2x32

# Compiled without optimisation, which takes longer than all the masks.
FAST = {"xla_backend_optimization_level": 0}
masks = jax.jit(keep_masks, static_argnums=(1, 2, 3, 4), compiler_options=FAST)


def mask(key: Array, shape: tuple[int, ...], keep: float) -> tuple[Array, Array]:
    """One mask and its share."""
    (kept,) = masks(key, 1, shape, keep)
    return kept.mask, kept.share


# Eight bits serve a rate of 0.3 (0.3008) and 0.5, not one of 0.05 (0.0508) or of 0.9 (0.8984).
@pytest.mark.parametrize(("keep", "levels"), [(0.7, 256), (0.5, 256), (0.1, 65536), (0.95, 65536), (0.999, 65536)])
def test_a_mask_keeps_the_share_it_says_and_that_is_nearly_what_was_asked(keep: float, levels: int) -> None:
    kept, share = mask(jax.random.key(1), (64, 16, 64), keep)
    assert float(share) == round(keep * levels) / levels
    assert abs(float(share) - keep) <= 0.01 * min(keep, 1 - keep)
    # Four standard errors of 65,536 independent decisions.
    assert abs(float(kept.mean()) - float(share)) < 4 * (keep * (1 - keep) / kept.size) ** 0.5


def correlation(a: Any, b: Any) -> float:
    """In standard errors of independent decisions."""
    a, b = np.asarray(a, np.float64).ravel(), np.asarray(b, np.float64).ravel()
    return float(abs(np.corrcoef(a, b)[0, 1]) * len(a) ** 0.5)


@pytest.mark.parametrize(("keep", "at_once"), [(0.5, 8), (0.95, 4)])
def test_the_decisions_of_a_random_block_are_independent(keep: float, at_once: int) -> None:
    kept, _ = mask(jax.random.key(2), (256, 64, at_once), keep)
    parts = [kept[..., part] for part in range(at_once)]
    assert all(correlation(a, b) < 4 for a, b in itertools.combinations(parts, 2))
    assert all(correlation(part[:-1], part[1:]) < 4 for part in parts)


def test_masks_of_two_keys_are_independent() -> None:
    keys = jax.random.split(jax.random.key(3), 2)
    one, other = (mask(key, (64, 64, 8), 0.7)[0] for key in keys)
    assert correlation(one, other) < 4


def test_masks_that_are_drawn_together_and_those_of_other_streams_are_independent() -> None:
    key, shape = jax.random.key(6), (64, 64, 8)
    together, others = ([kept.mask for kept in masks(key, 3, shape, 0.7, stream)] for stream in (1, 2))
    assert [each.shape for each in together] == [shape] * 3
    assert all(correlation(a, b) < 4 for a, b in itertools.combinations((*together, *others), 2))
    # 0.7 of 256 levels is 179.
    assert all(abs(float(each.mean()) - 179 / 256) < 4 * (0.21 / each.size) ** 0.5 for each in together)


def test_masks_are_the_same_for_a_member_whoever_is_beside_it() -> None:
    keys = jax.random.split(jax.random.key(7), 2)

    def drawn(key: Array) -> list[Array]:
        return [kept.mask for kept in keep_masks(key, 2, (4, 6, 20), 0.7, 5)]

    beside = jax.jit(jax.vmap(drawn), compiler_options=FAST)(keys)
    for member, key in enumerate(keys):
        for one, all_members in zip(drawn(key), beside, strict=True):
            np.testing.assert_array_equal(one, all_members[member])


@pytest.mark.parametrize("last", [1, 3, 5, 11])
def test_a_mask_has_the_shape_that_was_asked_for_whatever_its_last_axis(last: int) -> None:
    kept, _ = mask(jax.random.key(4), (1024, last), 0.5)
    assert kept.shape == (1024, last)
    assert kept.dtype == jnp.bool_
    # Every column is random, the last one of an incomplete block included.
    np.testing.assert_allclose(kept.mean(axis=0), 0.5, atol=4 * 0.5 / 32)
    assert all(correlation(kept[:, 0], kept[:, column]) < 4 for column in range(1, last))


def test_a_mask_is_true_where_a_byte_of_random_words_is_below_its_threshold() -> None:
    key, stream = jax.random.key(8), 2
    (kept,) = masks(key, 1, (1024, 8), 0.7, stream)
    counters = jnp.arange(1024, dtype=jnp.uint32)
    words = threefry_2x32(jax.random.key_data(key), jnp.concatenate([counters, jnp.full_like(counters, stream)]))
    numbers = np.asarray(words).reshape(2, 1024).T.astype("<u4", order="C").view(np.uint8)
    # 0.7 of 256 levels is 179; a number that equals it is not below.
    assert (numbers == 179).any()
    np.testing.assert_array_equal(kept.mask, numbers < 179)


def test_the_same_key_gives_the_same_mask() -> None:
    one, again = (mask(jax.random.key(5), (1024, 5), 0.5)[0] for _ in range(2))
    np.testing.assert_array_equal(one, again)


def test_random_words_are_those_of_jax() -> None:
    # The known answers of the algorithm's authors, and JAX's bits.
    words = threefry2x32(
        (jnp.uint32(0x13198A2E), jnp.uint32(0x03707344)), (jnp.uint32(0x243F6A88), jnp.uint32(0x85A308D3))
    )
    assert [hex(int(word)) for word in words] == ["0xc4923a9c", "0x483df7a0"]
    counters = jnp.arange(8, dtype=jnp.uint32)
    key = tuple(jax.random.key_data(jax.random.key(7)))
    expected = threefry_2x32(jnp.stack(key), jnp.concatenate([counters, jnp.zeros_like(counters)]))
    np.testing.assert_array_equal(jnp.concatenate(threefry2x32(key, (counters, jnp.zeros_like(counters)))), expected)
