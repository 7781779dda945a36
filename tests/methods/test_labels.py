"""Random labels: Algorithm 1's draw without replacement, and the published draw itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.problem import random_key

PUBLISHED = Path(__file__).parents[1] / "golden" / "losses" / "authors_random_labels.npz"

# Few distinct shapes: each one compiles.
n_points = st.just(7)
n_classes = st.sampled_from([2, 3])
n_members = st.integers(1, 9)
seeds = st.integers(0, 2**32 - 1)


@given(seeds, n_points, n_classes)
def test_up_to_c_members_never_share_a_label_on_a_point(seed: int, m: int, c: int) -> None:
    labels = np.asarray(nu.random_labels(seed, n_points=m, n_classes=c, n_members=c))
    assert labels.shape == (c, m)
    assert labels.dtype == np.int32
    assert (np.sort(labels, axis=0) == np.arange(c)[:, None]).all()


@given(seeds, n_points, n_classes)
def test_beyond_c_members_every_block_of_c_is_a_permutation(seed: int, m: int, c: int) -> None:
    labels = np.asarray(nu.random_labels(seed, m, c, 2 * c + 1))
    assert labels.shape == (2 * c + 1, m)
    for block in (labels[:c], labels[c : 2 * c]):
        assert (np.sort(block, axis=0) == np.arange(c)[:, None]).all()


@given(seeds, n_members)
def test_a_members_labels_do_not_depend_on_how_many_members_there_are(seed: int, k: int) -> None:
    all_nine = nu.random_labels(seed, 7, 3, 9)
    assert (np.asarray(nu.random_labels(seed, 7, 3, k)) == np.asarray(all_nine)[:k]).all()


def test_points_are_shuffled_on_their_own_and_blocks_anew() -> None:
    labels = np.asarray(nu.random_labels(0, 400, 3, 6))
    orders, counts = np.unique(labels[:3], axis=1, return_counts=True)
    assert orders.shape[1] == 6  # all 3! orders occur, about equally often
    assert counts.min() > 40
    assert (labels[:3] != labels[3:]).any()


@pytest.mark.parametrize("n_classes", [10, 100])
def test_the_published_labels_are_those_of_seed_100(n_classes: int) -> None:
    with np.load(PUBLISHED, allow_pickle=False) as stored:
        published = stored[f"labels_c{n_classes}"]
    with jax.threefry_partitionable(False):
        labels = nu.random_labels(100, n_points=5000, n_classes=n_classes, n_members=10)
    assert (np.asarray(labels) == published).all()


def test_a_seed_is_a_number_of_any_kind_or_a_key_old_or_new() -> None:
    expected = np.asarray(nu.random_labels(7, 5, 3, 3))
    seeds: list[Any] = [np.int64(7), np.uint8(7), jnp.int32(7), jax.random.key(7), jax.random.PRNGKey(7)]
    for seed in seeds:
        assert (np.asarray(nu.random_labels(seed, 5, 3, 3)) == expected).all()
    assert (np.asarray(nu.random_labels(8, 5, 3, 3)) != expected).any()


def test_a_seed_means_the_same_whatever_the_users_default_generator() -> None:
    expected = jax.random.key_data(random_key(7))
    with jax.default_prng_impl("rbg"):
        assert (jax.random.key_data(random_key(7)) == expected).all()


@pytest.mark.parametrize("seed", ["7", 7.0, None, [7]])
def test_what_is_no_seed_is_refused(seed: object) -> None:
    with pytest.raises(InputError, match=r"A seed is a whole number or a jax\.random key, not "):
        nu.random_labels(seed, 5, 3, 3)  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("seed", [2**32, 2**64, -(2**31) - 1])
def test_a_seed_that_would_be_cut_to_32_bits_is_refused(seed: int) -> None:
    with pytest.raises(InputError, match="32 bits"):
        nu.random_labels(seed, 5, 3, 3)


def test_a_key_of_another_generator_is_refused_because_its_draws_differ_under_vmap() -> None:
    with pytest.raises(InputError, match="threefry"):
        nu.random_labels(jax.random.key(0, impl="rbg"), 5, 3, 3)


def test_several_keys_at_once_are_refused() -> None:
    with pytest.raises(InputError, match="one key"):
        nu.random_labels(jax.random.split(jax.random.key(0), 3), 5, 3, 3)


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ((-1, 3, 3), "n_points must be a whole number of at least 0, not -1"),
        ((5, 0, 3), "n_classes must be a whole number of at least 1, not 0"),
        ((5, 3, 0), "n_members must be a whole number of at least 1, not 0"),
        ((5, 3, 2.5), "n_members must be a whole number, not 2.5"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(sizes: tuple[int, int, int], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        nu.random_labels(0, *sizes)


def test_no_points_give_no_labels() -> None:
    assert nu.random_labels(0, 0, 3, 2).shape == (2, 0)


def test_counts_may_be_unsigned_numbers_of_numpys() -> None:
    expected = nu.random_labels(0, n_points=5, n_classes=10, n_members=12)
    kinds: list[Any] = [np.uint8, np.uint64]
    for kind in kinds:
        found = nu.random_labels(0, n_points=kind(5), n_classes=kind(10), n_members=kind(12))
        np.testing.assert_array_equal(found, expected)
    assert nu.theory.expected_variance(kinds[0](20), kinds[0](10)) == nu.theory.expected_variance(20, 10)
