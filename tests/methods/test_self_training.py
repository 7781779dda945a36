"""Self-training: which unlabelled rows get a pseudo-label, and what they count."""

from __future__ import annotations

from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import arrays

from nu_ensembles.errors import InputError
from nu_ensembles.methods import Nu, SelfTraining, Standard, TrainingRows
from nu_ensembles.methods.self_training import pseudo_labels, with_pseudo_labels

# Six rows: four taken for class 0 (rows 0, 1, 3, 4), two for class 1 (rows 2, 5).
PREDICTED = np.array([[0.9, 0.1], [0.6, 0.4], [0.2, 0.8], [0.8, 0.2], [0.8, 0.2], [0.45, 0.55]])


def test_the_surest_rows_of_each_class_are_labelled() -> None:
    rows, labels = pseudo_labels(PREDICTED, np.array([0.5, 0.5]), 1 / 3)
    assert rows.tolist() == [0, 2]
    assert labels.tolist() == [0, 1]


def test_a_class_gets_as_many_as_its_share_of_the_labels_and_ties_go_by_row() -> None:
    rows, labels = pseudo_labels(PREDICTED, np.array([2 / 3, 1 / 3]), 0.5)
    assert rows.tolist() == [0, 2, 3]
    assert labels.tolist() == [0, 1, 0]


def test_a_class_that_is_predicted_too_often_is_cut_and_the_other_gets_all_it_has() -> None:
    rows, labels = pseudo_labels(PREDICTED, np.array([0.5, 0.5]), 1.0)
    assert rows.tolist() == [0, 2, 3, 4, 5]
    assert np.bincount(labels).tolist() == [3, 2]


predictions = st.integers(1, 40).flatmap(lambda n: arrays(np.float64, (n, 3), elements=st.floats(0.01, 1)))


@given(predictions, arrays(np.float64, 3, elements=st.floats(0.01, 1)), st.floats(0, 1), st.floats(0, 1))
def test_pseudo_labels_are_predictions_within_quota_and_a_larger_fraction_only_adds(
    scores: np.ndarray, shares: np.ndarray, one: float, other: float
) -> None:
    probabilities, shares = scores / scores.sum(axis=1, keepdims=True), shares / shares.sum()
    few, _ = pseudo_labels(probabilities, shares, min(one, other))
    rows, labels = pseudo_labels(probabilities, shares, max(one, other))
    assert (labels == probabilities[rows].argmax(axis=1)).all()
    assert (np.bincount(labels, minlength=3) <= max(one, other) * len(scores) * shares + 0.5).all()
    assert set(few) <= set(rows)


def test_pseudo_labelled_rows_join_the_labelled_ones_and_leave_the_unlabelled() -> None:
    rows = TrainingRows(np.array([[1.0], [2.0]]), np.array([0, 1], np.int32), np.array([1.5, 0.5]), np.eye(3)[:, :1])
    joined = with_pseudo_labels(rows, np.array([0, 2]), np.array([1, 1]), 0.5)
    assert joined.x.ravel().tolist() == [1.0, 2.0, 1.0, 0.0]
    assert joined.y.tolist() == [0, 1, 1, 1]
    # 1.5, 0.5, 0.5, 0.5 have mean 0.75; their proportions stay.
    assert joined.weight.tolist() == pytest.approx([2, 2 / 3, 2 / 3, 2 / 3])
    assert joined.x_unlabeled is not None
    assert joined.x_unlabeled.ravel().tolist() == [0.0]
    assert with_pseudo_labels(rows, np.arange(3), np.zeros(3, int), 1.0).x_unlabeled is None


def test_rows_without_a_pseudo_label_carry_random_labels_if_beta_is_given() -> None:
    assert SelfTraining().base == Standard()
    assert SelfTraining(beta=0.1).base == Nu(0.1)
    assert SelfTraining().uses_unlabeled


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"eras": 0}, "eras must be a whole number of at least 1, not 0"),
        ({"fraction": 0}, "fraction must be a number above 0, not 0"),
        ({"fraction": 1.5}, "fraction is a share of the unlabelled rows, above 0 and at most 1, not 1.5"),
        ({"pseudo_weight": 0}, "pseudo_weight must be a number above 0, not 0"),
        ({"beta": -0.1}, "beta must be a number of at least 0, not -0.1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        SelfTraining(**options)
