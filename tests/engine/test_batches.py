"""Which rows a member sees: endless passes, each a fresh permutation, a function of key and step alone."""

from __future__ import annotations

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles import models
from nu_ensembles.backend import BLOCK, LONG_BLOCK
from nu_ensembles.engine import blocks
from nu_ensembles.engine.batches import batch_rows, padded_size, row_order
from nu_ensembles.engine.blocks import LastingOrders, block_of, block_shapes
from nu_ensembles.engine.step import BATCH_USES
from nu_ensembles.methods import Nu, Standard
from nu_ensembles.methods.passes import NetworkPass

seeds = st.integers(0, 2**32 - 1)


@partial(jax.jit, static_argnames=("n_steps", "batch_size", "n_padded", "least_rows"))
def rows_of(seed, first_step, n_rows, *, n_steps, batch_size, n_padded, least_rows):
    return batch_rows(jax.random.key(seed), first_step, n_steps, batch_size, n_rows, n_padded, least_rows)


def stream(seed: int, n_rows: int, n_steps: int = 32, batch_size: int = 4, first_step: int = 0) -> np.ndarray:
    """Rows `[n_steps, batch_size]` of sets of 8 to 16 rows, which share a program."""
    return np.asarray(
        rows_of(
            jnp.uint32(seed),
            jnp.int32(first_step),
            jnp.int32(n_rows),
            n_steps=n_steps,
            batch_size=batch_size,
            n_padded=16,
            least_rows=8,
        )
    )


@given(seeds, st.integers(8, 16))
def test_every_pass_draws_every_row_exactly_once_and_no_padding(seed: int, n_rows: int) -> None:
    drawn = stream(seed, n_rows).ravel()
    whole_passes = drawn[: len(drawn) // n_rows * n_rows].reshape(-1, n_rows)
    assert (np.sort(whole_passes, axis=1) == np.arange(n_rows)).all()
    assert drawn.max() < n_rows


@given(seeds, st.integers(8, 16), st.integers(0, 1000))
def test_a_step_draws_the_same_rows_wherever_its_block_begins(seed: int, n_rows: int, first_step: int) -> None:
    block = stream(seed, n_rows, first_step=first_step)
    later = stream(seed, n_rows, first_step=first_step + 7)
    assert (block[7:] == later[:-7]).all()


def test_a_set_smaller_than_a_batch_wraps_around() -> None:
    rows = rows_of(0, 0, 3, n_steps=2, batch_size=8, n_padded=4, least_rows=2)
    assert np.bincount(np.ravel(rows), minlength=3).tolist() in ([6, 5, 5], [5, 6, 5], [5, 5, 6])


def test_a_single_row_is_drawn_every_time() -> None:
    assert (rows_of(0, 5, 1, n_steps=2, batch_size=8, n_padded=1, least_rows=1) == 0).all()


def test_passes_and_keys_differ() -> None:
    first, second = stream(1, 16).ravel()[:32].reshape(2, 16)
    assert (first != second).any()
    assert (stream(2, 16).ravel()[:16] != first).any()


def test_every_row_is_as_likely_in_every_place() -> None:
    keys = jax.random.split(jax.random.key(0), 600)
    orders = np.asarray(jax.jit(jax.vmap(lambda k: row_order(k, jnp.int32(3), 4)))(keys))
    counts = np.array([[np.sum(orders[:, place] == row) for row in range(3)] for place in range(3)])
    assert np.abs(counts - 200).max() < 70  # six standard deviations


@pytest.mark.parametrize(("n_padded", "n_rows"), [(4096, 3000), (8192, 5000), (70001, 70001)])
def test_large_sets_are_permuted_too(n_padded: int, n_rows: int) -> None:
    order = np.asarray(row_order(jax.random.key(0), jnp.int32(n_rows), n_padded))
    assert (np.sort(order[:n_rows]) == np.arange(n_rows)).all()
    assert (np.sort(order) == np.arange(n_padded)).all()


@pytest.mark.parametrize("n_padded", [16, 8192])
def test_a_row_that_draws_the_largest_number_still_comes_before_the_padding(
    n_padded: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jax.random, "bits", lambda key, shape, dtype: jnp.full(shape, 0xFFFFFFFF, dtype))
    order = np.asarray(row_order(jax.random.key(0), jnp.int32(10), n_padded))
    assert set(order[:10].tolist()) == set(range(10))


@pytest.mark.parametrize(
    ("n_rows", "padded"), [(1, 1), (2, 2), (3, 4), (64, 64), (65, 128), (65536, 65536), (65537, 65537)]
)
def test_sets_are_padded_to_powers_of_two_until_that_costs_too_much_memory(n_rows: int, padded: int) -> None:
    assert padded_size(n_rows) == padded


@pytest.mark.slow
def test_the_orders_of_large_sets_are_drawn_once_a_pass_and_give_the_same_rows(
    assembled, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Blocks of two steps, passes of at least four: 40 labelled rows are a large set of batches of 8.
    monkeypatch.setattr(blocks, "steps_a_block", lambda *_: 2)
    ready = assembled(Standard())
    lanes = ready.lanes._replace(n_rows=jnp.array([32, 40, 35], jnp.int32))
    lasting, n_draws = LastingOrders(), 0
    draw = blocks.lane_orders

    def counted(*arguments):
        nonlocal n_draws
        n_draws += 1
        return draw(*arguments)

    monkeypatch.setattr(blocks, "lane_orders", counted)
    with jax.disable_jit():  # or programs of blocks of two would be left to other tests
        for number in (0, 1, 2, 3, 1):
            kept = block_of(ready.program, lanes, ready.data, number, lasting)
            fresh = block_of(ready.program, lanes, ready.data, number)
            np.testing.assert_array_equal(kept.rows, fresh.rows)
    # Block 2 begins with row 32, the first lane's second pass, block 3 with row 48, everybody's; then all goes back.
    assert n_draws == 4


@pytest.mark.parametrize("method", [Nu(0.1), Standard()])
def test_the_shapes_of_a_block_are_known_before_it_is_drawn(assembled, method: Nu | Standard) -> None:
    ready = assembled(method)
    arguments = ready.program, ready.lanes, ready.data
    drawn = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), block_of(*arguments, 0))
    assert block_shapes(*arguments) == drawn


@pytest.mark.parametrize(
    ("backend", "model", "length"),
    [
        ("cpu", models.mlp(3), BLOCK),
        ("gpu", models.mlp(3), LONG_BLOCK),
        ("gpu", models.lenet(3), BLOCK),  # whose steps take longer
    ],
)
def test_blocks_are_long_where_steps_are_short(
    assembled, monkeypatch: pytest.MonkeyPatch, backend: str, model: models.Model, length: int
) -> None:
    ready = assembled(Standard(), model=model, x=np.zeros((40, 8, 8, 1), np.float32))
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    assert blocks.steps_a_block(ready.program, ready.data) == length


def test_what_a_step_draws_does_not_depend_on_the_length_of_blocks(assembled, monkeypatch: pytest.MonkeyPatch) -> None:
    ready = assembled(Nu(0.1))
    arguments = ready.program, ready.lanes, ready.data
    short = [block_of(*arguments, number) for number in range(LONG_BLOCK // BLOCK)]
    monkeypatch.setattr(blocks, "steps_a_block", lambda *_: LONG_BLOCK)
    long = block_of(*arguments, 0)
    for step in (0, 5, BLOCK - 1, BLOCK, LONG_BLOCK - 1):
        one, other = short[step // BLOCK].draws(jnp.int32(step)), long.draws(jnp.int32(step))
        np.testing.assert_array_equal(one.rows, other.rows)
        assert one.unlabeled_rows is not None
        assert other.unlabeled_rows is not None
        np.testing.assert_array_equal(one.unlabeled_rows, other.unlabeled_rows)
        for keys in ("batch_keys", "network_keys"):
            data = [jax.random.key_data(getattr(draws, keys)) for draws in (one, other)]
            np.testing.assert_array_equal(data[0], data[1])


def test_no_two_draws_share_a_key_but_the_first_pass_of_a_network_which_has_its_own_at_hand(assembled) -> None:
    ready = assembled(Nu(0.1))
    block = block_of(ready.program, ready.lanes, ready.data, 0)
    of_networks, of_first_passes = block.network_keys[..., 0], block.network_keys[..., 1]
    expected = jax.vmap(jax.vmap(lambda key: jax.random.fold_in(key, 0)))(of_networks)
    np.testing.assert_array_equal(jax.random.key_data(of_first_passes), jax.random.key_data(expected))
    assert block.batch_keys.shape == (ready.lanes.n_lanes, BLOCK, len(BATCH_USES))
    words = [np.asarray(jax.random.key_data(keys)).reshape(-1, 2) for keys in (block.batch_keys, block.network_keys)]
    together = np.concatenate(words)
    assert len(np.unique(together, axis=0)) == len(together)


def test_a_second_pass_of_a_network_has_another_key() -> None:
    keys = []

    def apply(variables, x, *, key, train):
        keys.append(tuple(jax.random.key_data(key).tolist()))
        return x

    key = jax.random.key(1)
    for first_key in (None, jax.random.fold_in(key, 0)):
        forward = NetworkPass(models.Model(lambda key, x: (), apply), (), (), key, first_key)
        forward(jnp.zeros((1, 2)))
        forward(jnp.zeros((1, 2)))
    assert keys[:2] == keys[2:]
    assert len(set(keys)) == 2
