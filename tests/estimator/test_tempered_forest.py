"""A forest with an out-of-bag temperature, stored as plain arrays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import nu_ensembles as nu
from nu_ensembles.companion.forest import with_one_vote_each
from nu_ensembles.companion.trees import Trees
from nu_ensembles.errors import InputError
from nu_ensembles.storage import load_arrays, save_arrays


@pytest.fixture(scope="module")
def shuffled(digits) -> tuple[NDArray, NDArray]:
    """The digits, which are sorted by writer, in another order."""
    order = np.random.default_rng(0).permutation(1797)
    return digits[0][order], digits[1][order]


@pytest.fixture(scope="module")
def forest(shuffled) -> nu.TemperedForest:
    x, y = shuffled
    return nu.TemperedForest(30, random_state=0).fit(x[:300], y[:300])


@pytest.mark.parametrize("options", [{}, {"max_depth": 1}, {"min_samples_leaf": 20}, {"n_estimators": 1}], ids=str)
def test_trees_as_arrays_give_the_probabilities_of_scikit_learn_to_the_last_bit(options: dict, digits) -> None:
    x, y = digits
    asked: dict[str, Any] = {"n_estimators": 20, "random_state": 0} | options
    theirs = RandomForestClassifier(**asked).fit(x[:200], y[:200])
    ours = Trees.of(theirs.estimators_).probabilities(x)
    np.testing.assert_array_equal(ours, theirs.predict_proba(x))


def test_a_row_on_the_threshold_goes_left() -> None:
    stump = RandomForestClassifier(1, bootstrap=False, random_state=0).fit([[0.0], [1.0]], [0, 1])
    np.testing.assert_array_equal(
        Trees.of(stump.estimators_).probabilities(np.array([[0.5], [0.50001]])), [[1.0, 0.0], [0.0, 1.0]]
    )


def test_every_class_gets_one_vote_beside_those_of_the_trees() -> None:
    votes = with_one_vote_each(np.array([[7.0, 0.0, 0.0], [0.0, 0.0, 0.0]]), np.array([7, 0]))
    np.testing.assert_allclose(votes, [[0.8, 0.1, 0.1], [1 / 3, 1 / 3, 1 / 3]])


def test_the_temperature_is_fitted_to_rows_that_the_trees_had_not_seen(shuffled, forest) -> None:
    x, y = shuffled
    assert forest.temperature_ < 0.7  # a forest of few labels is too cautious
    plain = RandomForestClassifier(30, random_state=0).fit(x[:300], y[:300]).predict_proba(x[300:])
    smoothed = (30 * plain + 1) / 40
    assert nu.metrics.nll(forest.predict_proba(x[300:]), y[300:]) < 0.8 * nu.metrics.nll(smoothed, y[300:])
    # Of the rows themselves the forest is far surer than the trees that had not seen them.
    of_bag = nu.metrics.nll(forest.oob_probabilities_, y[:300])
    assert of_bag > 5 * nu.metrics.nll(forest.predict_proba(x[:300]), y[:300])


def test_no_probability_is_zero(forest, digits) -> None:
    assert forest.predict_proba(digits[0]).min() > 0


def test_rows_that_every_tree_has_seen_have_no_out_of_bag_prediction() -> None:
    forest = nu.TemperedForest(1, random_state=0).fit(np.arange(20.0)[:, None], np.arange(20) % 2)
    unseen = np.isfinite(forest.oob_probabilities_).all(axis=1)
    assert 0 < unseen.sum() < 20


def test_an_endless_prior_leaves_the_temperature_at_one(digits) -> None:
    x, y = digits
    forest = nu.TemperedForest(10, temperature_prior=1e12, random_state=0).fit(x[:100], y[:100])
    assert forest.temperature_ == pytest.approx(1.0, abs=1e-4)


def test_a_forest_survives_a_file_without_pickle(forest, digits, tmp_path: Path) -> None:
    file = tmp_path / "forest.safetensors"
    sha = save_arrays(file, forest.state())
    again = nu.TemperedForest.from_state(load_arrays(file, sha))
    np.testing.assert_array_equal(again.predict_proba(digits[0]), forest.predict_proba(digits[0]))
    np.testing.assert_array_equal(again.predict(digits[0]), forest.predict(digits[0]))


def test_classes_may_be_words_and_the_state_keeps_them() -> None:
    forest = nu.TemperedForest(5, random_state=0).fit([[0.0], [1.0], [0.0], [1.0]], ["no", "yes", "no", "yes"])
    again = nu.TemperedForest.from_state(forest.state())
    assert again.predict([[1.0], [0.0]]).tolist() == forest.predict([[1.0], [0.0]]).tolist()
    assert again.classes_.tolist() == ["no", "yes"]


DAMAGE = {
    "no classes": {"classes": None},
    "a class too few": {"classes": np.arange(9)},
    "temperature": {"temperature": -1.0},
    "a root beyond": {"roots": np.array([10**6])},
    "no root": {"roots": np.array([], int)},
    "an endless walk": {"left": np.zeros(5, int)},
    "a feature beyond": {"n_features": 3},
    "nan": {"values": np.full((1, 10), np.nan)},
    "text": {"threshold": "a"},
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_state_is_refused(damage: dict[str, Any], forest) -> None:
    with pytest.raises(InputError, match="state"):
        nu.TemperedForest.from_state(forest.state() | damage)


def test_a_walk_in_circles_is_refused(forest) -> None:
    state = forest.state()
    state["right"] = np.where(state["right"] == np.arange(len(state["right"])), 0, state["right"])
    with pytest.raises(InputError, match="do not fit together"):
        nu.TemperedForest.from_state(state)


@pytest.mark.parametrize("option", ["n_estimators", "temperature_prior"])
def test_bad_options_are_refused(option: str) -> None:
    with pytest.raises(InputError, match=option):
        nu.TemperedForest(**{option: -1}).fit([[0.0], [1.0]], [0, 1])


def expected_failures(_: Any) -> dict[str, str]:
    reason = "Each tree draws rows at random: a repeated row is drawn otherwise than a row of weight 2."
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@parametrize_with_checks([nu.TemperedForest(10)], expected_failed_checks=expected_failures)
def test_a_tempered_forest_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)


def test_one_weight_for_all_rows_may_be_any_number(blobs: tuple[np.ndarray, ...]) -> None:
    x, y, _ = blobs
    one, heavy = (nu.TemperedForest(5, random_state=0).fit(x, y, sample_weight=weight) for weight in (2.0, 1 << 70))  # pyright: ignore
    np.testing.assert_array_equal(heavy.predict(x), one.predict(x))
