"""Parts are disjoint, have the sizes asked for, and depend on nothing but the seed and what came before."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.datasets import load_digits, published_split, split
from nu_ensembles.errors import InputError

seeds = st.integers(0, 2**32 - 1)
labels = st.lists(st.sampled_from("abcde"), min_size=1, max_size=60)


@given(labels, st.lists(st.integers(0, 20), min_size=1, max_size=4), seeds, st.booleans())
def test_parts_are_disjoint_and_have_their_sizes_and_the_rest_completes_them(y, sizes, seed, stratified):
    named = {str(number): min(size, len(y) // len(sizes)) for number, size in enumerate(sizes)}
    parts = split(len(y), {**named, "rest": None}, seed, stratify=y if stratified else None)
    assert [len(parts[name]) for name in named] == list(named.values())
    assert sorted(np.concatenate(list(parts.values()))) == list(range(len(y)))


@given(labels, st.data(), seeds)
def test_a_stratified_part_holds_each_class_in_proportion_up_to_rounding(y, data, seed):
    size = data.draw(st.integers(0, len(y)))
    part = split(len(y), {"train": size}, seed, stratify=y)["train"]
    for label in set(y):
        exact = size * y.count(label) / len(y)
        assert abs(sum(y[row] == label for row in part) - exact) < 1


def test_the_demo_split_of_digits_has_five_labels_of_each_class():
    _, y = load_digits()
    parts = split(1797, {"train": 50, "unlabeled": 800, "test": None}, seed=0, stratify=y)
    assert {name: len(rows) for name, rows in parts.items()} == {"train": 50, "unlabeled": 800, "test": 947}
    assert np.bincount(y[parts["train"]]).tolist() == [5] * 10


def test_the_same_seed_gives_the_same_parts_and_another_seed_others():
    first, again, other = (split(100, {"a": 10}, seed)["a"].tolist() for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.parametrize("stratify", [None, np.arange(100) % 3])
def test_a_later_part_does_not_change_an_earlier_one(stratify):
    alone = split(100, {"a": 10}, 0, stratify)
    followed = split(100, {"a": 10, "b": 20, "c": None}, 0, stratify)
    assert alone["a"].tolist() == followed["a"].tolist()


def test_rows_come_in_random_order_even_when_stratified():
    y = np.repeat([0, 1], 50)
    rows = split(100, {"a": 100}, 0, stratify=y)["a"]
    assert 0 < y[rows[:50]].sum() < 50


@pytest.mark.parametrize("stratify", [None, []])
def test_no_rows_give_empty_parts(stratify):
    assert split(0, {"a": 0, "b": None}, 0, stratify)["b"].tolist() == []


@pytest.mark.parametrize(
    ("sizes", "stratify", "message"),
    [
        (
            {"train": 50, "test": 60},
            None,
            r"need 110 rows \(50 train \+ 60 test\) but the data has 100: ask for",
        ),
        ({"train": -1}, None, r"The size of part 'train' must be a whole number of rows, not -1"),
        ({"train": 0.5}, None, r"sizes must be a dict with text as keys \(a whole number or None each\), not .*0\.5"),
        ({"a": None, "b": None}, None, r"Only one part can take the rest of the rows, not 'a' and 'b'"),
        ({"train": 5}, [0, 1], r"stratify must hold one label for each of the 100 rows, not \(2,\)"),
    ],
)
def test_impossible_parts_are_refused(sizes, stratify, message):
    with pytest.raises(InputError, match=message):
        split(100, sizes, 0, stratify)


def test_the_published_split_takes_the_first_rows_to_validate_the_next_to_train_and_the_next_unlabelled():
    parts = published_split(50_000, n_train=1000)
    assert {name: (rows[0], rows[-1], len(rows)) for name, rows in parts.items()} == {
        "validation": (0, 4999, 5000),
        "train": (5000, 5999, 1000),
        "unlabeled": (6000, 10_999, 5000),
    }


def test_a_published_split_that_exceeds_the_set_says_what_it_needs():
    with pytest.raises(InputError, match=r"need 50001 rows \(5000 validation \+ 40001 train \+ 5000 unlabeled\)"):
        published_split(50_000, n_train=40_001)
