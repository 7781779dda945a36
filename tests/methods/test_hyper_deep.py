"""Hyper-deep ensembles: the greedy pick, the pool and the rows that are held out for picking."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

from nu_ensembles.errors import InputError
from nu_ensembles.methods.hyper_deep import HyperDeep, PoolSetting, greedy_pick, holdout_rows


def of_true_class(*probabilities: list[float]) -> np.ndarray:
    """A pool of networks that give the true class, number 0, these probabilities; `[P, N, 2]`."""
    true = np.array(probabilities)
    return np.stack([true, 1 - true], axis=-1)


ZEROS = np.zeros(2, int)


def test_the_first_pick_is_the_best_network_and_the_second_makes_up_for_its_weakness() -> None:
    # Means of -log p: 0.60 for the even one alone or twice, 1.20 for a lopsided one, 0.72 for one of each.
    pool = of_true_class([0.55, 0.55], [0.9, 0.1], [0.1, 0.9])
    assert greedy_pick(pool, ZEROS, 2) == ([0, 0], pytest.approx(-np.log(0.55)))
    # Alone the even one has 0.80, with a lopsided one 0.74, with both of them 0.63.
    pool = of_true_class([0.45, 0.45], [0.95, 0.2], [0.2, 0.95])
    picked, nll = greedy_pick(pool, ZEROS, 3)
    assert picked == [0, 1, 2]
    assert nll == pytest.approx(-np.log((0.45 + 0.95 + 0.2) / 3))


def test_of_equally_good_networks_the_first_is_picked() -> None:
    pool = of_true_class([0.2, 0.2], [0.6, 0.6], [0.6, 0.6])
    assert greedy_pick(pool, ZEROS, 3)[0] == [1, 1, 1]


def test_weights_decide_which_rows_matter() -> None:
    pool = of_true_class([0.9, 0.3], [0.3, 0.9])
    assert greedy_pick(pool, ZEROS, 1, np.array([1.0, 3.0]))[0] == [1]
    assert greedy_pick(pool, ZEROS, 1, np.array([3.0, 1.0]))[0] == [0]


def test_a_network_that_gives_a_row_no_probability_is_no_reason_to_fail() -> None:
    picked, nll = greedy_pick(of_true_class([0.0, 1.0], [0.3, 0.3]), ZEROS, 2)
    assert picked == [1, 0]
    assert np.isfinite(nll)


pools = st.tuples(st.integers(1, 6), st.integers(1, 7)).flatmap(
    lambda shape: arrays(np.float64, (*shape, 3), elements=st.floats(0, 1))
)


@given(pools, st.integers(1, 8))
def test_the_pick_is_never_worse_than_the_best_single_network(scores: np.ndarray, n_members: int) -> None:
    probabilities = (scores + 1e-9) / (scores + 1e-9).sum(axis=-1, keepdims=True)
    labels = np.arange(scores.shape[1]) % 3
    picked, nll = greedy_pick(probabilities, labels, n_members)
    alone = [greedy_pick(each[None], labels, 1)[1] for each in probabilities]
    assert len(picked) == n_members
    assert nll <= min(alone) + 1e-9
    together = np.maximum(probabilities[picked].mean(axis=0)[np.arange(len(labels)), labels], 1e-300)
    assert nll == pytest.approx(-np.log(together).mean(), abs=1e-9)


@given(st.lists(st.integers(0, 3), min_size=4, max_size=60), st.floats(0.05, 0.9), st.integers(0, 99))
def test_held_out_rows_leave_every_class_something_to_learn(codes: list[int], share: float, seed: int) -> None:
    labels = np.array(codes)
    train, held_out = holdout_rows(labels, share, np.random.default_rng(seed))
    assert sorted([*train, *held_out]) == list(range(len(labels)))
    assert set(labels[train]) == set(codes)
    assert len(held_out) <= round(share * len(labels))


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("counts", "held_out"), [([5] * 10, [1] * 10), ([20, 10, 5], [4, 2, 1]), ([8, 1, 1], [2, 0, 0]), ([1, 1], [0, 0])]
)
def test_a_fifth_of_every_class_is_held_out(counts: list[int], held_out: list[int], seed: int) -> None:
    codes = np.repeat(np.arange(len(counts)), counts)
    _, rows = holdout_rows(codes, 0.2, np.random.default_rng(seed))
    assert np.bincount(codes[rows], minlength=len(counts)).tolist() == held_out


def pool_of(method: HyperDeep, pool_size: int, dropout: float | None = 0.0) -> list[PoolSetting]:
    trainer: Any = SimpleNamespace(learning_rate=0.003, weight_decay=0.5, dropout=dropout)
    return method.pool(trainer, pool_size, np.random.default_rng(0))


def test_the_pool_tries_every_combination_before_any_comes_twice() -> None:
    method = HyperDeep(learning_rates=[0.1, 0.2], weight_decays=(0,), dropouts=(0.0, 0.5))  # pyright: ignore[reportArgumentType]
    pool = pool_of(method, 6)
    every = {PoolSetting(rate, 0.0, dropout) for rate in (0.1, 0.2) for dropout in (0.0, 0.5)}
    assert set(pool[:4]) == every
    assert len(set(pool[4:])) == 2
    assert pool[:4] == pool_of(method, 4)


def test_without_values_the_pool_spreads_around_the_users_own() -> None:
    pool = pool_of(HyperDeep(), 27)
    assert sorted({setting.learning_rate for setting in pool}) == pytest.approx([0.001, 0.003, 0.009])
    assert {setting.weight_decay for setting in pool} == {0.5, 50.0, 5000.0}
    assert {setting.dropout for setting in pool} == {0.0, 0.1, 0.3}
    assert {setting.dropout for setting in pool_of(HyperDeep(), 9, dropout=None)} == {None}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"pool_size": 0}, "pool_size must be a whole number of at least 1, not 0"),
        ({"learning_rates": (0.1, 0.0)}, "each of learning_rates must be a number above 0, not 0.0"),
        ({"learning_rates": 0.1}, r"learning_rates must list at least one value, as in \(0.001, 0.01\), not 0.1"),
        ({"learning_rates": "0.1"}, "learning_rates must list at least one value"),
        ({"weight_decays": ()}, r"weight_decays must list at least one value.*not \(\)"),
        ({"dropouts": [[1], [2, 3]]}, "dropouts cannot be taken as an array"),
        ({"weight_decays": (-1,)}, "each of weight_decays must be a number of at least 0, not -1"),
        ({"dropouts": (1.0,)}, r"each of dropouts must be a number of at least 0 and below 1, not 1.0"),
        ({"holdout": 1.0}, "holdout is a share of the labelled rows, between 0 and 1, not 1.0"),
        ({"beta": -1}, "beta must be a number of at least 0, not -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        HyperDeep(**options)
