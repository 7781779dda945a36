"""Where auto takes beta = 0 it is the early-stopped standard ensemble, to the last bit; and it says nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_iris

import nu_ensembles as nu

TINY: dict[str, Any] = {
    "n_members": 2,
    "max_iter": 30,
    "learning_rate": 0.01,
    "model_options": {"hidden": (8,)},
    "random_state": 3,
    "cv": 3,
}


@pytest.fixture(scope="module")
def rows() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, y = load_iris(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(x))
    return x[order[:40]], y[order[:40]], x[order[40:]]


def test_beta_zero_is_the_early_stopped_standard_ensemble_to_the_last_bit(rows: Any) -> None:
    x, y, u = rows
    # With so much caution no gain is large enough, so that the test does not hang on what is chosen.
    auto = nu.NuEnsembleClassifier(tolerance=1e6, **TINY).fit(x, y, X_unlabeled=u)
    standard = nu.EnsembleClassifier("standard", early_stopping=True, **TINY).fit(x, y, X_unlabeled=u)
    assert (auto.beta_, auto.n_steps_) == (0.0, standard.n_steps_)
    np.testing.assert_array_equal(auto.predict_members(u), standard.predict_members(u))
    assert auto.search_ is not None
    assert standard.search_ is not None
    of_zero = auto.search_.out_of_fold.losses[0]
    measured = np.isfinite(standard.search_.out_of_fold.losses[0])
    np.testing.assert_array_equal(of_zero[measured], standard.search_.out_of_fold.losses[0][measured])


def test_the_steps_are_scaled_to_the_rows_of_the_final_training(rows: Any) -> None:
    x, y, u = rows
    auto = nu.NuEnsembleClassifier(**TINY).fit(x, y, X_unlabeled=u)
    found = auto.search_
    assert found is not None
    # Two thirds of 40 rows train in a fold.
    assert found.more_rows == pytest.approx(1.5, abs=0.03)
    assert auto.n_steps_ == min(round(found.more_rows * int(found.out_of_fold.steps[found.chosen[1]])), 30)
    assert auto.cv_results_ is not None
    assert auto.n_steps_ in auto.cv_results_["n_steps"]
    shown = nu.NuEnsembleClassifier(**TINY).fit(x[:25], y[:25], X_unlabeled=u, validation=(x[25:], y[25:]))
    assert shown.search_ is not None
    assert shown.search_.more_rows == 1
