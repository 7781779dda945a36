"""Out-of-fold predictions one fold after another: every row once a deal, by what was trained without it."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles.problem.problem import Problem, prepare
from nu_ensembles.tuning.fold_by_fold import fold_by_fold
from nu_ensembles.tuning.folds import Fold, first_deal, with_validation

# Rows 0 … 4 of one feature, which tells the row's number.
X, Y = np.arange(5.0)[:, None].repeat(2, axis=1), np.array([0, 1, 0, 1, 0])
FOLDS = [Fold(np.array([2, 3, 4]), np.array([0, 1])), Fold(np.array([0, 1]), np.array([2, 3, 4]))]


@pytest.fixture
def problem() -> Problem:
    return prepare(X, Y, sample_weight=np.array([1.0, 1, 1, 1, 4]))


def test_every_row_is_predicted_by_what_was_trained_without_it(problem: Problem) -> None:
    trained_on: list[list[float]] = []

    def predict(part: Problem, x: np.ndarray, fold: int) -> np.ndarray:
        trained_on.append(part.x[:, 0].tolist())
        assert x[:, 0].tolist() == FOLDS[fold].held_out.tolist()
        assert part.weight.tolist() == problem.weight[FOLDS[fold].train].tolist()
        # Class 0 has probability .5 after the first step and .8 after the second.
        of_zero = np.array([0.5, 0.8])[:, None].repeat(len(x), axis=1)
        return np.stack([of_zero, 1 - of_zero], axis=-1)

    found = fold_by_fold(problem, FOLDS, np.array([10, 20]), predict)
    assert trained_on == [[2, 3, 4], [0, 1]]
    assert found.steps.tolist() == [10, 20]
    np.testing.assert_allclose(found.losses[0, 1], -np.log([0.8, 0.2, 0.8, 0.2, 0.8]))
    # Weights 1, 1, 1, 1, 4: six eighths of them on class 0.
    np.testing.assert_allclose(found.mean_nll(), [[np.log(2), -(6 * np.log(0.8) + 2 * np.log(0.2)) / 8]])


def test_validation_rows_take_the_place_of_the_folds(problem: Problem) -> None:
    def predict(part: Problem, x: np.ndarray, fold: int) -> np.ndarray:
        assert (len(part.x), x[:, 0].tolist(), fold) == (5, [7.0, 8.0], 0)
        return np.full((1, 2, 2), 0.5)

    found = fold_by_fold(
        problem, [], np.array([10]), predict, validation=(np.array([[7.0, 7], [8, 8]]), np.array([1, 0]))
    )
    assert found.rows.tolist() == [5, 6]
    assert found.codes.tolist() == [1, 0]


def test_of_repeated_deals_the_first_is_kept() -> None:
    again = [Fold(np.array([0, 1, 3]), np.array([2, 4])), Fold(np.array([2, 4]), np.array([0, 1, 3]))]
    assert first_deal([*FOLDS, *again]) == FOLDS
    # A row that is held out only later counts its fold in.
    late = Fold(np.array([0]), np.array([1, 9]))
    assert first_deal([FOLDS[0], late]) == [FOLDS[0], late]


def test_the_one_fold_of_validation_rows_trains_on_all_others() -> None:
    rows = X, Y.astype(np.int32), np.ones(5, np.float32)
    (x, codes, weight), (fold,) = with_validation(rows, (X[:2], Y[:2]))
    assert (x.shape, codes.dtype, weight.tolist()) == ((7, 2), np.int32, [1.0] * 7)
    assert (fold.train.tolist(), fold.held_out.tolist()) == ([0, 1, 2, 3, 4], [5, 6])
