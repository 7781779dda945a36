"""Folds: every class spread evenly, every row held out once a repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.model_selection import KFold

from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.tuning import Fold, folds_of, stratified_folds


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


def test_the_row_of_a_class_that_has_no_other_trains_in_every_fold() -> None:
    folds = stratified_folds(np.array([0, 0, 1, 2, 1]), 2, 2, 0)
    assert all(3 in fold.train and 3 not in fold.held_out for fold in folds)
    assert sorted(np.concatenate([fold.held_out for fold in folds[:2]]).tolist()) == [0, 1, 2, 4]


def test_single_rows_only_are_refused_with_what_to_do() -> None:
    with pytest.raises(InputError, match=r"Every class has a single labelled row.*add rows, give a validation set"):
        stratified_folds(np.arange(4), 2, 1, 0)


CLASSES = np.array(["ant", "bee", "cat"])


def folds(cv: Any, y: list[int]) -> list[Fold]:
    return folds_of(cv, np.array(y), 0, np.arange(len(y)), len(y), CLASSES)


def test_a_single_row_is_named_by_its_class() -> None:
    with pytest.warns(DataWarning, match="A single labelled row in class bee: it trains in every fold"):
        assert all(4 in fold.train for fold in folds(2, [0, 0, 2, 2, 1]))


def test_a_single_row_that_a_split_holds_out_is_moved_to_those_that_train() -> None:
    splits = [([0, 2], [1, 3, 4]), ([1, 3, 4], [0, 2])]
    with pytest.warns(DataWarning, match="class bee"):
        found = folds(splits, [0, 0, 2, 2, 1])
    assert [fold.train.tolist() for fold in found] == [[0, 2, 4], [1, 3, 4]]
    assert [fold.held_out.tolist() for fold in found] == [[1, 3], [0, 2]]


def test_a_split_that_trains_without_a_class_is_refused() -> None:
    with pytest.raises(InputError, match="holds out rows of the class ant and none of it trains; use a stratified"):
        folds(KFold(2), [0, 0, 2, 2])
    with pytest.raises(InputError, match=r"cv cannot split the 4 labelled rows \(.*\); give a number of folds"):
        folds(KFold(5), [0, 0, 2, 2])


def test_fewer_labels_than_folds_are_told() -> None:
    with pytest.warns(DataWarning, match="4 labelled rows make no 5 folds: 4 are used"):
        assert len(folds(5, [0, 0, 2, 2])) == 8


def test_classes_without_rows_are_no_obstacle() -> None:
    assert len(stratified_folds(np.array([0, 0, 4, 4]), 2, 1, 0)) == 2


def test_no_more_folds_than_rows() -> None:
    assert len(stratified_folds(np.array([0, 0, 1, 1]), 10, 1, 0)) == 4
