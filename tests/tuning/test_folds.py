"""Folds: every class spread evenly, every row held out once a repeat."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nu_ensembles.errors import InputError
from nu_ensembles.tuning import stratified_folds


@given(st.lists(st.integers(2, 9), min_size=2, max_size=4), st.integers(2, 5), st.integers(1, 3), st.integers(0, 99))
def test_every_row_is_held_out_once_a_repeat_and_classes_are_spread(
    counts: list[int], n_folds: int, n_repeats: int, seed: int
) -> None:
    codes = np.random.default_rng(seed).permutation(np.repeat(np.arange(len(counts)), counts))
    n_folds = min(n_folds, len(codes))
    folds = stratified_folds(codes, n_folds, n_repeats, seed)
    assert len(folds) == n_folds * n_repeats
    for repeat in range(n_repeats):
        dealt = folds[repeat * n_folds : (repeat + 1) * n_folds]
        assert sorted(np.concatenate([fold.held_out for fold in dealt]).tolist()) == list(range(len(codes)))
        sizes = [len(fold.held_out) for fold in dealt]
        assert max(sizes) - min(sizes) <= 1
        for label in range(len(counts)):
            of_class = [int((codes[fold.held_out] == label).sum()) for fold in dealt]
            assert max(of_class) - min(of_class) <= 1
        for fold in dealt:
            assert sorted([*fold.train, *fold.held_out]) == list(range(len(codes)))
            assert set(codes[fold.train]) == set(range(len(counts)))  # two rows of a class: one always trains


def test_repeats_and_seeds_deal_anew() -> None:
    codes = np.arange(30) % 3
    first, second = (stratified_folds(codes, 3, 2, seed=0)[fold] for fold in (0, 3))
    other = stratified_folds(codes, 3, 1, seed=1)[0]
    assert first.held_out.tolist() != second.held_out.tolist()
    assert first.held_out.tolist() != other.held_out.tolist()
    assert first.held_out.tolist() == stratified_folds(codes, 3, 1, seed=0)[0].held_out.tolist()


def test_a_class_with_a_single_row_is_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match=r"a single labelled row .*class number 2.*add a row, give a validation"):
        stratified_folds(np.array([0, 0, 1, 1, 2]), 2, 1, 0)


def test_classes_without_rows_are_no_obstacle() -> None:
    assert len(stratified_folds(np.array([0, 0, 4, 4]), 2, 1, 0)) == 2


def test_no_more_folds_than_rows() -> None:
    assert len(stratified_folds(np.array([0, 0, 1, 1]), 10, 1, 0)) == 4
