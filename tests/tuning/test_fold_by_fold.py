"""Out-of-fold predictions one fold after another: every row once a deal, by what was trained without it."""

from __future__ import annotations

import numpy as np
import pytest

from nu_ensembles import models
from nu_ensembles.engine.settings import Settings
from nu_ensembles.methods import Standard, TrainingRows
from nu_ensembles.problem import prepare, random_key
from nu_ensembles.training import TrainingJob, make_job
from nu_ensembles.tuning.fold_by_fold import fold_by_fold
from nu_ensembles.tuning.folds import Fold, first_deal, held_out_of

# Rows 0 … 4 of one feature, which tells the row's number.
X, Y = np.arange(5.0)[:, None].repeat(2, axis=1), np.array([0, 1, 0, 1, 0])
FOLDS = [Fold(np.array([2, 3, 4]), np.array([0, 1])), Fold(np.array([0, 1]), np.array([2, 3, 4]))]


@pytest.fixture
def job() -> TrainingJob:
    problem = prepare(X, Y, sample_weight=np.array([1.0, 1, 1, 1, 4]))
    return make_job(
        problem, models.mlp(2, hidden=(3,)), Standard(), Settings(), n_members=1, n_steps=20, key=random_key(0)
    )


@pytest.fixture
def validated(job: TrainingJob) -> TrainingJob:
    """The job with two validation rows."""
    shown = job.problem.further_rows(np.array([[7.0, 7], [8, 8]]), np.array([1, 0]), "the validation x")
    return job.replace(validation=TrainingRows(*shown, np.ones(2, np.float32)))


def test_every_row_is_predicted_by_what_was_trained_without_it(job: TrainingJob) -> None:
    trained_on: list[list[float]] = []

    def predict(of_fold: TrainingJob, x: np.ndarray, fold: int) -> np.ndarray:
        trained_on.append(of_fold.problem.x[:, 0].tolist())
        assert x[:, 0].tolist() == FOLDS[fold].held_out.tolist()
        assert of_fold.problem.weight.tolist() == job.problem.weight[FOLDS[fold].train].tolist()
        # Class 0 has probability .5 after the first step and .8 after the second.
        of_zero = np.array([0.5, 0.8])[:, None].repeat(len(x), axis=1)
        return np.stack([of_zero, 1 - of_zero], axis=-1)

    found = fold_by_fold(job, FOLDS, np.array([10, 20]), predict)
    assert trained_on == [[2, 3, 4], [0, 1]]
    assert found.steps.tolist() == [10, 20]
    np.testing.assert_allclose(found.losses[0, 1], -np.log([0.8, 0.2, 0.8, 0.2, 0.8]))
    # Weights 1, 1, 1, 1, 4: six eighths of them on class 0.
    np.testing.assert_allclose(found.mean_nll(), [[np.log(2), -(6 * np.log(0.8) + 2 * np.log(0.2)) / 8]])


def test_validation_rows_take_the_place_of_the_folds_and_are_not_shown(validated: TrainingJob) -> None:
    def predict(of_fold: TrainingJob, x: np.ndarray, fold: int) -> np.ndarray:
        assert (len(of_fold.problem.x), x[:, 0].tolist(), fold) == (5, [7.0, 8.0], 0)
        assert of_fold.validation is None
        return np.full((1, 2, 2), 0.5)

    found = fold_by_fold(validated, [], np.array([10]), predict)
    assert found.rows.tolist() == [5, 6]
    assert found.y.tolist() == [1, 0]


def test_of_repeated_deals_the_first_is_kept() -> None:
    again = [Fold(np.array([0, 1, 3]), np.array([2, 4])), Fold(np.array([2, 4]), np.array([0, 1, 3]))]
    assert first_deal([*FOLDS, *again]) == FOLDS
    # A row that is held out only later counts its fold in.
    late = Fold(np.array([0]), np.array([1, 9]))
    assert first_deal([FOLDS[0], late]) == [FOLDS[0], late]


def test_the_one_fold_of_validation_rows_trains_on_all_others(validated: TrainingJob) -> None:
    rows, (fold,) = held_out_of(validated, [])
    assert (rows.x.shape, rows.y.dtype, rows.weight.tolist()[5:]) == ((7, 2), np.int32, [1.0] * 2)
    assert (fold.train.tolist(), fold.held_out.tolist()) == ([0, 1, 2, 3, 4], [5, 6])
