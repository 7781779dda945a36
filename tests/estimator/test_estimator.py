"""The scikit-learn classifiers: what they learn, how unlabelled rows reach them, what they report and refuse."""

from __future__ import annotations

import dataclasses
import math
import pickle
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
import scipy.sparse
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, StratifiedKFold
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

import nu_ensembles as nu
from nu_ensembles import models, tuning
from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.metrics.temperature import scale_temperature
from nu_ensembles.training import TrainingJob, runner
from nu_ensembles.tuning.trial import Trial

# The sizes of the other tests, so that all share compiled programs: 20 steps of 8 rows.
SMALL: dict[str, Any] = {
    "n_members": 3,
    "model_options": {"hidden": (8,)},
    "batch_size": 8,
    "max_iter": 4,
    "learning_rate": 0.01,
    "random_state": 0,
}
SEARCH: dict[str, Any] = {**SMALL, "betas": (0.1,), "cv": 3}


# Any: their attributes are looked at more closely than scikit-learn's types can tell.
def fixed(**options: Any) -> Any:
    return nu.NuEnsembleClassifier(**{"beta": 0.1, **SMALL, **options})


def auto(**options: Any) -> Any:
    return nu.NuEnsembleClassifier(**{**SEARCH, **options})


def standard(**options: Any) -> Any:
    return nu.EnsembleClassifier(**{**SMALL, **options})


def assert_same_bits(one: Any, other: Any) -> None:
    jax.tree.map(np.testing.assert_array_equal, one.ensemble_.params, other.ensemble_.params)


@pytest.fixture(scope="module")
def fitted(blobs) -> nu.NuEnsembleClassifier:
    x, y, u = blobs
    return fixed().fit(x, y, X_unlabeled=u)


@pytest.fixture(scope="module")
def searched(blobs) -> nu.NuEnsembleClassifier:
    x, y, u = blobs
    return auto().fit(x, y, X_unlabeled=u)


# What is learnt


def test_predictions_have_the_shapes_of_scikit_learn_and_come_from_the_ensemble(fitted, blobs) -> None:
    x, y, _ = blobs
    members = fitted.predict_members(x)
    assert members.shape == (3, 40, 3)
    np.testing.assert_allclose(fitted.predict_proba(x), members.mean(axis=0), atol=1e-7)
    assert (fitted.predict(x) == fitted.classes_[fitted.predict_proba(x).argmax(axis=1)]).all()
    assert fitted.score(x, y) > 0.8
    assert isinstance(fitted.ensemble_, nu.Ensemble)


def test_it_tells_what_was_done(fitted) -> None:
    assert fitted.classes_.tolist() == [0, 1, 2]
    assert fitted.n_features_in_ == 4
    assert (fitted.beta_, fitted.n_steps_, fitted.n_iter_) == (0.1, 20, 4)
    assert fitted.cv_results_ is None
    assert math.isnan(fitted.temperature_)
    assert fitted.verdict_ == "nu, 20 steps as given: nothing was chosen, so nothing was compared."
    assert fitted.ensemble_.training["n_unlabelled"] == 50


def test_inputs_are_standardised_over_labelled_and_unlabelled_rows(fitted, blobs) -> None:
    x, _, u = blobs
    np.testing.assert_allclose(fitted.ensemble_.standardisation.mean, np.concatenate([x, u]).mean(axis=0), rtol=1e-5)
    shifted = fixed().fit(1000 * x + 7, blobs[1], X_unlabeled=1000 * u + 7)
    np.testing.assert_allclose(shifted.predict_proba(1000 * x + 7), fitted.predict_proba(x), atol=1e-3)
    assert fixed(standardize=False).fit(x, blobs[1], X_unlabeled=u).ensemble_.standardisation is None


def test_the_random_state_decides_to_the_last_bit(fitted, blobs) -> None:
    x, y, u = blobs
    assert_same_bits(fixed().fit(x, y, X_unlabeled=u), fitted)
    assert_same_bits(fixed(random_state=np.random.RandomState(0)).fit(x, y, X_unlabeled=u), fitted)
    other = fixed(random_state=1).fit(x, y, X_unlabeled=u)
    assert (other.predict_proba(x) != fitted.predict_proba(x)).any()


def test_beta_zero_and_the_method_standard_are_the_same_ensemble(blobs) -> None:
    x, y, u = blobs
    zero = fixed(beta=0).fit(x, y, X_unlabeled=u)
    assert_same_bits(zero, standard().fit(x, y, X_unlabeled=u))
    assert zero.beta_ == 0


def test_any_method_runs_by_its_name_and_options(fitted, blobs) -> None:
    x, y, u = blobs
    by_name = nu.EnsembleClassifier("nu", method_options={"beta": 0.1}, **SMALL).fit(x, y, X_unlabeled=u)
    assert_same_bits(by_name, fitted)


@pytest.mark.parametrize(
    "labels", [np.array(["a", "b", "c"]), np.array([10, 20, 30]), np.array(["x", "y", "z"], object)]
)
def test_labels_of_any_type_come_back(fitted, blobs, labels: np.ndarray) -> None:
    x, y, u = blobs
    named = fixed().fit(x, labels[y], X_unlabeled=u)
    assert_same_bits(named, fitted)
    assert (named.predict(x) == labels[fitted.predict(x)]).all()


def test_class_weights_are_sample_weights(blobs) -> None:
    x, y, u = blobs
    y = np.where(np.arange(40) < 30, 0, y)
    by_class = fixed(class_weight={0: 1.0, 1: 5.0, 2: 2.0}).fit(x, y, X_unlabeled=u)
    by_row = fixed().fit(x, y, X_unlabeled=u, sample_weight=np.array([1.0, 5.0, 2.0])[y])
    assert_same_bits(by_class, by_row)
    both = fixed(class_weight={0: 1.0, 1: 5.0, 2: 2.0}).fit(x, y, X_unlabeled=u, sample_weight=np.arange(1, 41))
    assert_same_bits(
        both, fixed().fit(x, y, X_unlabeled=u, sample_weight=np.array([1.0, 5.0, 2.0])[y] * np.arange(1, 41))
    )
    weight = np.where(np.arange(40) < 25, 0.0, 1.0)  # rows without weight are not there
    weighted = fixed(class_weight="balanced").fit(x, y, X_unlabeled=u, sample_weight=weight)
    assert_same_bits(weighted, fixed(class_weight="balanced").fit(x[25:], y[25:], X_unlabeled=u))
    balanced = fixed(class_weight="balanced").fit(x, y, X_unlabeled=u)
    plain = fixed().fit(x, y, X_unlabeled=u)
    assert balanced.predict_proba(x)[:, 0].mean() < plain.predict_proba(x)[:, 0].mean()


def test_images_of_bytes_train_a_convolutional_network(digits) -> None:
    pixels, y = digits
    images = (16 * pixels[:24]).astype(np.uint8).reshape(-1, 8, 8, 1)
    clf = nu.NuEnsembleClassifier(
        n_members=2, beta=0.1, model="lenet", max_iter=2, batch_size=8, augment="flip_crop", random_state=0
    )
    clf.fit(images[:16], y[:16] % 2, X_unlabeled=images[16:])
    assert clf.ensemble_.pixels
    assert clf.ensemble_.standardisation is None
    assert clf.predict_proba(images).shape == (24, 2)


# Unlabelled rows: as an argument, in a wrapper, inside X


def marked(blobs, mark: Any = -1, dtype: Any = int) -> tuple[np.ndarray, np.ndarray]:
    """Labelled and unlabelled rows together, the latter marked in y."""
    x, y, u = blobs
    return np.concatenate([x, u]), np.concatenate([y.astype(dtype), np.full(50, mark, dtype)])


def test_unlabelled_rows_arrive_in_each_of_three_ways(fitted, blobs) -> None:
    x, y, u = blobs
    assert_same_bits(fixed().fit(x, y, X_unlabeled=nu.Unlabeled(u)), fitted)
    assert_same_bits(fixed(unlabeled_label=-1).fit(*marked(blobs)), fitted)
    assert_same_bits(fixed(unlabeled_label="?").fit(*marked(blobs, "?", str)), fitted)


def test_marked_rows_join_those_given_apart(fitted, blobs) -> None:
    X, y = marked(blobs)
    both = fixed(unlabeled_label=-1).fit(X[:60], y[:60], X_unlabeled=X[60:])
    assert both.ensemble_.training["n_unlabelled"] == 50
    assert both.classes_.tolist() == [0, 1, 2]
    assert_same_bits(fixed(unlabeled_label=-1).fit(X, y, X_unlabeled=[]), fitted)
    with pytest.raises(InputError, match=r"X_unlabeled has rows of shape \(3,\) where \(4,\) is expected"):
        fixed(unlabeled_label=-1).fit(X, y, X_unlabeled=X[:, :3])


def test_whether_the_unlabelled_rows_come_from_elsewhere_is_tested_in_fit(blobs) -> None:
    X, y, U = blobs
    same = fixed().fit(X, y, U).shift_
    assert same.p > 0.01 < same.power
    moved = fixed().fit(X, y, U + 3).shift_
    assert moved.differs
    assert moved.statistic > 0.9
    assert fixed().fit(X, y, U[:9]).shift_ is None
    assert standard().fit(X, y).shift_ is None


def test_by_default_minus_one_is_a_class_like_any_other(blobs) -> None:
    x, y, u = blobs
    assert fixed().fit(x, y - 1, X_unlabeled=u).classes_.tolist() == [-1, 0, 1]


def test_weights_of_marked_rows_do_not_count(fitted, blobs) -> None:
    X, y = marked(blobs)
    weight = np.where(y == -1, 99.0, 1.0)
    assert_same_bits(fixed(unlabeled_label=-1).fit(X, y, sample_weight=weight), fitted)


def test_marked_rows_are_left_out_of_the_score(fitted, blobs) -> None:
    x, y, _ = blobs
    assert fixed(unlabeled_label=-1).fit(*marked(blobs)).score(*marked(blobs)) == fitted.score(x, y)


def test_without_unlabelled_rows_there_is_a_warning_and_a_standard_ensemble(blobs) -> None:
    x, y, _ = blobs
    with pytest.warns(UserWarning, match="no unlabelled data, so 'nu' falls back to a standard ensemble"):
        alone = fixed().fit(x, y)
    assert_same_bits(alone, standard().fit(x, y))
    assert alone.beta_ == 0
    with pytest.warns(UserWarning, match="falls back"):
        fixed(unlabeled_label=-1).fit(x, y)


def n_unlabelled(clf: nu.EnsembleClassifier, *_: Any) -> float:
    """A score that tells how many unlabelled rows a fit has seen."""
    return clf.ensemble_.training["n_unlabelled"]


def test_grid_search_slices_an_array_of_as_many_rows_as_x_but_not_the_wrapper(blobs) -> None:
    x, y, u = blobs
    grid = GridSearchCV(fixed(max_iter=1), {"beta": [0.1, 0.2]}, scoring=n_unlabelled, cv=2)
    assert grid.fit(x, y, X_unlabeled=nu.Unlabeled(u[:40])).cv_results_["mean_test_score"].tolist() == [40, 40]
    # Why the wrapper exists: scikit-learn takes the array for something that goes with the rows.
    assert grid.fit(x, y, X_unlabeled=u[:40]).cv_results_["mean_test_score"].tolist() == [20, 20]


def test_grid_search_takes_marked_rows_and_scores_the_labelled_ones(blobs) -> None:
    grid = GridSearchCV(fixed(unlabeled_label=-1, max_iter=10), {"beta": [0.1, 30.0]}, cv=2)
    grid.fit(*marked(blobs))
    assert grid.best_params_ == {"beta": 0.1}
    assert grid.best_score_ > 0.6
    assert grid.predict_proba(blobs[0]).shape == (40, 3)


def test_in_a_pipeline_marked_rows_are_transformed_with_the_others(blobs) -> None:
    X, y = marked(blobs)
    X = X * [1, 10, 100, 1000]
    pipeline = make_pipeline(StandardScaler(), fixed(unlabeled_label=-1, standardize=False)).fit(X, y)
    by_hand = fixed(unlabeled_label=-1, standardize=False).fit(StandardScaler().fit_transform(X), y)
    assert_same_bits(pipeline[-1], by_hand)
    assert pipeline.predict(X).shape == (90,)


def test_a_pipeline_can_be_told_to_transform_the_argument_too(blobs) -> None:
    x, y, u = blobs
    scaler = StandardScaler().fit(10 * x)
    by_hand = fixed(standardize=False).fit(scaler.transform(10 * x), y, X_unlabeled=scaler.transform(10 * u))
    with sklearn.config_context(enable_metadata_routing=True):
        clf = fixed(standardize=False).set_fit_request(X_unlabeled=True)
        steps = [("scale", StandardScaler()), ("clf", clf)]
        pipeline = Pipeline(steps, transform_input=["X_unlabeled"]).fit(10 * x, y, X_unlabeled=10 * u)
    assert_same_bits(pipeline["clf"], by_hand)


def test_a_plain_pipeline_hands_the_argument_on_as_it_is(fitted, blobs) -> None:
    x, y, u = blobs
    pipeline = make_pipeline("passthrough", fixed()).fit(x, y, nuensembleclassifier__X_unlabeled=nu.Unlabeled(u))
    assert_same_bits(pipeline[-1], fitted)


class Frame:
    """As much of a data frame as the classifiers look at."""

    def __init__(self, rows: np.ndarray, columns: str) -> None:
        self.rows, self.columns, self.shape = rows, list(columns), rows.shape

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        return np.asarray(self.rows, dtype)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, names: list[str]) -> Frame:
        return Frame(self.rows[:, [self.columns.index(name) for name in names]], "".join(names))


def test_the_columns_of_frames_are_matched_by_name(fitted, blobs) -> None:
    x, y, u = blobs
    turned, wider = Frame(u[:, ::-1], "dcba"), Frame(np.c_[u, u[:, 0]], "abcde")
    for other in (Frame(u, "abcd"), turned, nu.Unlabeled(turned)):
        assert_same_bits(fixed().fit(Frame(x, "abcd"), y, X_unlabeled=other), fitted)
    with pytest.warns(
        UserWarning, match="X_unlabeled has columns that the training rows had not, which are ignored: 'e'"
    ):
        assert_same_bits(fixed().fit(Frame(x, "abcd"), y, X_unlabeled=wider), fitted)
    with pytest.raises(InputError, match=r"X_unlabeled lacks the column\(s\) 'd' of the training rows \(it has 'e'"):
        fixed().fit(Frame(x, "abcd"), y, X_unlabeled=nu.Unlabeled(Frame(u, "abce")))
    with pytest.raises(InputError, match=r"the validation x lacks the column\(s\) 'a', 'b'"):
        auto().fit(Frame(x, "abcd"), y, X_unlabeled=u, validation=(Frame(x, "dcef"), y))


def test_rows_of_numbers_of_several_types_are_taken_wherever_x_is(blobs) -> None:
    x, y, u = (np.asarray(part, float) if part.ndim > 1 else part for part in blobs)
    mixed = [np.concatenate([rows.astype(object), rows[:, :1] > 0], axis=1) for rows in (x, u)]
    plain = [rows.astype(float) for rows in mixed]
    found, expected = (
        auto().fit(a, y, X_unlabeled=b, validation=(a, y)).predict_proba(plain[1]) for a, b in (mixed, plain)
    )
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(InputError, match=r"X_unlabeled cannot be taken as numbers .*'red'.*in a data frame"):
        fixed().fit(mixed[0], y, X_unlabeled=np.full((3, 5), "red", object))


# Choosing by itself


def test_beta_and_steps_are_chosen_together_and_the_evidence_is_kept(searched) -> None:
    columns = searched.cv_results_
    assert sorted(set(columns["beta"])) == sorted({0.0, 0.1, *searched.search_.betas})
    assert columns["n_steps"][-1] == 20
    chosen = int(np.flatnonzero(columns["chosen"])[0])
    assert columns["chosen"].sum() == 1
    assert (searched.beta_, searched.n_steps_) == (columns["beta"][chosen], columns["n_steps"][chosen])
    assert columns["difference"][chosen] <= 0.5 * columns["standard_error"][chosen]
    assert searched.verdict_.startswith(f"β = {searched.beta_:g}, {searched.n_steps_} steps: ")
    assert searched.ensemble_.training["verdict"] == searched.verdict_
    assert searched.ensemble_.training["n_steps"] == searched.n_steps_


def test_the_ensemble_is_trained_anew_on_all_labels_with_what_was_chosen(
    searched, blobs, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, u = blobs
    candidate = searched.search_.betas.tolist().index(0.1)
    chosen = dataclasses.replace(searched.search_, chosen=(candidate, 2))
    monkeypatch.setattr(tuning, "search", lambda *_, **__: chosen)
    clf = auto().fit(x, y, X_unlabeled=u)
    assert (clf.beta_, clf.n_steps_) == (0.1, chosen.steps[2])
    again = nu.fit(
        models.mlp(3, hidden=(8,), ramps=True),
        x,
        y,
        u,
        nu.methods.Nu(0.1),
        n_members=3,
        seed=clf.ensemble_.training["seed"],
        steps=int(chosen.steps[2]),
        batch_size=8,
        learning_rate=0.01,
        standardize=True,
    )
    jax.tree.map(np.testing.assert_array_equal, clf.ensemble_.params, again.params)


def test_a_great_tolerance_takes_the_standard_ensemble(blobs) -> None:
    x, y, u = blobs
    cautious = auto(tolerance=1e6).fit(x, y, X_unlabeled=u)
    assert cautious.beta_ == 0
    assert cautious.verdict_.startswith("β = 0, ")
    assert cautious.ensemble_.training["method"] == "standard"


def test_the_temperature_is_always_shown_and_applied_on_request(searched, blobs) -> None:
    x, y, u = blobs
    assert searched.ensemble_.temperature == 1
    assert 0.2 < searched.temperature_ < 5
    scaled = auto(temperature=True).fit(x, y, X_unlabeled=u)
    assert_same_bits(scaled, searched)
    assert scaled.temperature_ == searched.temperature_
    assert scaled.ensemble_.temperature == scaled.calibrator_.temperature
    assert scaled.calibrator_.temperature == pytest.approx(scaled.temperature_, abs=1e-5)
    expected = scale_temperature(searched.predict_proba(x), searched.temperature_)
    np.testing.assert_allclose(scaled.predict_proba(x), expected, atol=1e-6)


def test_a_temperature_alone_changes_neither_beta_nor_length(fitted, blobs) -> None:
    x, y, u = blobs
    assert fitted.calibrator_ is None
    scaled = fixed(calibration="temperature", cv=3).fit(x, y, X_unlabeled=u)
    assert_same_bits(scaled, fitted)
    assert scaled.ensemble_.temperature == pytest.approx(scaled.temperature_, abs=1e-5)
    assert scaled.ensemble_.temperature != 1
    assert scaled.cv_results_["beta"].tolist() == [0.1]
    assert scaled.cv_results_["n_steps"].tolist() == [20]
    assert scaled.verdict_.startswith("nu, 20 steps: out-of-fold NLL 0.")


def test_a_calibrator_is_saved_with_the_ensemble_and_leaves_members_alone(fitted, blobs, tmp_path: Path) -> None:
    x, y, u = blobs
    shifted = fixed(calibration="vector_scaling", cv=3).fit(x, y, X_unlabeled=u)
    assert_same_bits(shifted, fitted)
    assert "Calibrated by vector_scaling (calibration='vector_scaling'): " in shifted.verdict_
    expected = shifted.calibrator_.apply(fitted.predict_members(x))
    np.testing.assert_allclose(shifted.predict_proba(x), expected, atol=1e-6)
    np.testing.assert_array_equal(shifted.predict_members(x), fitted.predict_members(x))
    shifted.save(tmp_path / "model")
    again = nu.Ensemble.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(x), shifted.predict_proba(x))
    assert again.predict_proba(x[:0]).shape == (0, 3)


def test_early_stopping_chooses_the_length_of_a_given_method(blobs) -> None:
    x, y, u = blobs
    stopped = fixed(early_stopping=True, cv=3).fit(x, y, X_unlabeled=u)
    assert set(stopped.cv_results_["beta"]) == {0.1}
    assert len(stopped.cv_results_["n_steps"]) > 5
    assert stopped.n_steps_ in stopped.cv_results_["n_steps"]
    assert stopped.n_steps_ == stopped.cv_results_["n_steps"][np.argmin(stopped.cv_results_["nll"])]
    assert stopped.beta_ == 0.1


def test_without_unlabelled_rows_only_the_length_is_chosen(blobs) -> None:
    x, y, _ = blobs
    with pytest.warns(UserWarning, match="falls back"):
        alone = auto().fit(x, y)
    assert set(alone.cv_results_["beta"]) == {0.0}
    assert alone.beta_ == 0
    assert alone.verdict_.startswith(f"standard, {alone.n_steps_} steps: out-of-fold NLL")


def test_a_validation_set_takes_the_place_of_the_folds(blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, u = blobs
    given: dict[str, Any] = {}

    def fake(job: TrainingJob, folds: Any, *_: Any, **__: Any) -> None:
        given.update(validation=job.validation, folds=folds)
        raise KeyboardInterrupt

    monkeypatch.setattr(tuning, "search", fake)
    with pytest.raises(KeyboardInterrupt):
        auto(standardize=False).fit(x, y, X_unlabeled=u, validation=(x[:7] + 1, y[:7]))
    assert given["folds"] == []
    np.testing.assert_array_equal(given["validation"].x, x[:7] + 1)
    assert given["validation"].y.tolist() == y[:7].tolist()


def folds_of(clf: nu.EnsembleClassifier, blobs, **arguments: Any) -> list[tuple[int, int]]:
    """How many rows train and are held out in each fold; the search itself does not run."""
    x, y, u = blobs
    found: list[tuple[int, int]] = []

    def fake(_: TrainingJob, folds: Any, *_rest: Any, **__: Any) -> None:
        found.extend((len(fold.train), len(fold.held_out)) for fold in folds)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tuning, "search", fake)
        with pytest.raises(KeyboardInterrupt):
            clf.fit(**{"X": x, "y": y, "X_unlabeled": u, **arguments})
    return found


def test_folds_are_dealt_twice_when_labels_are_few(blobs) -> None:
    assert folds_of(auto(cv=4), blobs) == [(30, 10)] * 8
    assert folds_of(auto(cv=None), blobs) == [(32, 8)] * 10
    many = {"X": np.tile(blobs[0], (3, 1)), "y": np.tile(blobs[1], 3)}
    assert folds_of(auto(cv=4), blobs, **many) == [(90, 30)] * 4


def test_folds_may_be_a_splitter_or_splits_that_number_the_rows_of_x(blobs) -> None:
    assert folds_of(auto(cv=StratifiedKFold(4)), blobs) == [(30, 10)] * 4
    splits = [(np.arange(20), np.arange(20, 40)), (np.arange(5, 40), np.arange(5))]
    assert folds_of(auto(cv=splits), blobs) == [(20, 20), (35, 5)]
    weight = np.where(np.arange(40) < 3, 0.0, 1.0)
    assert folds_of(auto(cv=iter(splits)), blobs, sample_weight=weight) == [(17, 20), (35, 2)]
    masks = [tuple(np.isin(np.arange(40), rows) for rows in split) for split in splits]
    assert folds_of(auto(cv=masks), blobs) == [(20, 20), (35, 5)]


# Being an estimator


def test_clones_have_the_same_parameters_and_the_same_network() -> None:
    network = models.mlp(3, hidden=(8,))
    clf = nu.NuEnsembleClassifier(n_members=7, beta=0.3, model=network, class_weight={0: 2.0})
    copy: Any = clone(clf)
    assert copy.get_params() == clf.get_params()
    assert copy.model is network


@pytest.mark.parametrize("make", [fixed, auto, standard])
def test_parameters_are_kept_as_given_until_fit(make: Any) -> None:
    clf = make(max_iter=-3, cv="nonsense")
    assert clf.get_params()["max_iter"] == -3
    assert clf.set_params(max_iter=5).max_iter == 5


def test_a_fitted_classifier_survives_pickling(searched, blobs) -> None:
    x, _, _ = blobs
    copy = pickle.loads(pickle.dumps(searched))
    assert (copy.predict_proba(x) == searched.predict_proba(x)).all()
    assert copy.verdict_ == searched.verdict_
    assert copy.get_params() == searched.get_params()
    assert pickle.loads(pickle.dumps(auto())).get_params() == auto().get_params()


def test_a_saved_classifier_is_read_as_an_ensemble(fitted, blobs, tmp_path: Path) -> None:
    x, _, _ = blobs
    fitted.save(tmp_path / "model")
    loaded = nu.Ensemble.load(tmp_path / "model")
    assert (loaded.predict_proba(x) == fitted.predict_proba(x)).all()
    assert loaded.training["verdict"] == fitted.verdict_


def test_nothing_is_predicted_or_saved_before_the_fit(blobs, tmp_path: Path) -> None:
    for call in (fixed().predict, fixed().predict_proba, fixed().predict_members):
        with pytest.raises(NotFittedError):
            call(blobs[0])
    with pytest.raises(NotFittedError):
        fixed().save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_killed_fit_resumes_after_its_search(
    searched, blobs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, u = blobs

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(runner, "train", killed)
        with pytest.raises(KeyboardInterrupt):
            auto(run_folder=tmp_path / "run").fit(x, y, X_unlabeled=u)
    monkeypatch.setattr(Trial, "__init__", killed)
    resumed = auto(run_folder=tmp_path / "run", resume=True).fit(x, y, X_unlabeled=u)
    assert_same_bits(resumed, searched)
    assert resumed.verdict_ == searched.verdict_


def test_members_can_be_added_to_what_a_classifier_trained(blobs) -> None:
    x, y, u = blobs
    small, large = (fixed(n_members=n, max_iter=3).fit(x, y, X_unlabeled=u) for n in (2, 3))
    added = nu.fit(
        models.mlp(3, hidden=(8,), ramps=True),
        x,
        y,
        u,
        nu.methods.Nu(0.1),
        n_members=3,
        epochs=3,
        seed=small.ensemble_.training["seed"],
        standardize=True,
        batch_size=8,
        learning_rate=0.01,
        add_to=small.ensemble_,
    )
    assert added.n_members == 3
    np.testing.assert_allclose(added.predict_members(x), large.predict_members(x), atol=1e-5)


# Methods of several trainings, and those whose members meet


@pytest.mark.parametrize("method", ["single", "mc_dropout", "swag", "hyper_deep", "self_training"])
def test_a_procedure_runs_by_its_name_as_in_nu_fit(blobs, method: str) -> None:
    x, y, u = blobs
    options = {"hyper_deep": {"pool_size": 3, "dropouts": [0.0]}, "self_training": {"eras": 1, "fraction": 0.4}}
    classifier = standard(method=method, method_options=options.get(method), standardize=False).fit(x, y, X_unlabeled=u)
    assert classifier.ensemble_.training["method"] == method
    assert classifier.verdict_.startswith(f"{method}, 20 steps as given")
    by_hand = nu.fit(
        models.mlp(3, hidden=(8,)),
        x,
        y,
        u,
        nu.methods.build(method, **(options.get(method) or {})),
        3,
        seed=classifier.ensemble_.training["seed"],
        steps=20,
        batch_size=8,
        learning_rate=0.01,
    )
    np.testing.assert_array_equal(by_hand.predict_members(x), classifier.predict_members(x))


def test_a_method_may_be_given_itself(fitted, blobs) -> None:
    x, y, u = blobs
    itself: Any = clone(standard(method=nu.methods.Nu(0.1)))
    assert_same_bits(itself.fit(x, y, X_unlabeled=u), fitted)
    with pytest.raises(InputError, match="method_options go with a method's name; this method has its options already"):
        standard(method=nu.methods.Nu(0.1), method_options={"beta": 0.2}).fit(x, y, X_unlabeled=u)


@pytest.fixture
def trained_stages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """(labelled rows, steps) of every training of a procedure."""
    seen: list[tuple[int, int]] = []
    train = runner.train

    def recording(assembly: Any, n_steps: int, **options: Any) -> Any:
        seen.append((int(assembly.lanes.n_rows[0]), n_steps))
        return train(assembly, n_steps, **options)

    monkeypatch.setattr(runner, "train", recording)
    return seen


@pytest.fixture
def fewer_lengths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[tuning.SearchSettings.__module__], "PROCEDURE_STOPS", 2)


@pytest.mark.usefixtures("fewer_lengths")
def test_the_length_and_temperature_of_a_procedure_come_from_the_whole_of_it_fold_by_fold(
    blobs, trained_stages, tmp_path: Path
) -> None:
    x, y, _ = blobs
    options = {"early_stopping": True, "temperature": True, "cv": 2, "run_folder": tmp_path / "run"}
    swag = standard(method="swag", **options).fit(x, y)
    assert swag.search_.steps.tolist() == [1, 20]
    assert swag.n_steps_ == int(swag.search_.steps[np.argmin(swag.search_.nll[0])])
    # Each half, of the first of the two deals that few labels get, at both lengths; then all rows.
    assert trained_stages == [(20, 1), (20, 20)] * 2 + [(40, swag.n_steps_)]
    assert swag.ensemble_.temperature == pytest.approx(swag.temperature_, abs=1e-5)
    assert swag.temperature_ > 0
    assert swag.verdict_.startswith(
        f"swag, {swag.n_steps_} steps: out-of-fold NLL {swag.search_.nll.min():.3f}; the out-of-fold temperature is "
        f"{swag.temperature_:.2f}. Calibrated by temperature (calibration='temperature'): "
    )
    assert list((tmp_path / "run" / "checkpoints").iterdir()) == []
    # A finished run folder holds its model, also from Python.
    loaded = nu.Ensemble.load(tmp_path / "run" / "model")
    assert loaded.training["verdict"] == swag.verdict_
    assert (loaded.predict_proba(x) == swag.predict_proba(x)).all()
    assert not (tmp_path / "run" / "unfinished").exists()


@pytest.mark.usefixtures("fewer_lengths")
def test_a_killed_search_of_a_procedure_goes_on_where_it_was(
    blobs, trained_stages, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, y, _ = blobs
    options = {"method": "swag", "early_stopping": True, "cv": 2}
    unbroken = standard(**options).fit(x, y)
    run_folder, recording = tmp_path / "run", runner.train

    def two_trainings(*arguments: Any, **rest: Any) -> Any:
        if len(trained_stages) == 2:
            raise KeyboardInterrupt
        return recording(*arguments, **rest)

    trained_stages.clear()
    with monkeypatch.context() as patch:
        patch.setattr(runner, "train", two_trainings)
        with pytest.raises(KeyboardInterrupt):
            standard(**options, run_folder=run_folder).fit(x, y)
    kept = {path.name for path in (run_folder / "checkpoints").iterdir()}
    assert {"1-steps-without-fold-0.json", "20-steps-without-fold-0.safetensors"} <= kept
    trained_stages.clear()
    with pytest.raises(InputError, match="belongs to other data or settings; use the same ones to resume it"):
        standard(**options, run_folder=run_folder, resume=True).fit(x + 1, y)
    resumed = standard(**options, run_folder=run_folder, resume=True).fit(x, y)
    assert trained_stages == [(20, 1), (20, 20), (40, unbroken.n_steps_)]
    assert_same_bits(resumed, unbroken)
    assert resumed.verdict_ == unbroken.verdict_


def test_validation_rows_score_a_procedure_that_does_not_see_them(blobs, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, _ = blobs
    shown: list[int | None] = []

    def carry_out(self: Any, trainer: Any) -> Any:
        shown.append(None if trainer.validation is None else len(trainer.validation.x))
        return nu.methods.Members(trainer.train("network", self.base, [0]))

    monkeypatch.setattr(nu.methods.Single, "carry_out", carry_out)
    single = standard(method="single", temperature=True).fit(x, y, validation=(x[:12], y[:12]))
    # Once to be scored, without them; then for good, with them to choose by.
    assert shown == [None, 12]
    assert single.search_.out_of_fold.y.tolist() == y[:12].tolist()
    assert single.ensemble_.temperature == pytest.approx(single.temperature_, abs=1e-5)
    assert single.temperature_ > 0


def test_steps_and_temperature_of_a_joint_method_come_from_one_training_a_fold_with_all_members(
    blobs, trained_stages
) -> None:
    x, y, _ = blobs
    joint = standard(method="pac2", early_stopping=True, cv=2).fit(x, y)
    # Two deals of two folds, then all rows.
    assert trained_stages == [(20, 20)] * 4 + [(40, joint.n_steps_)]
    assert joint.n_steps_ in joint.search_.steps
    assert np.isfinite(joint.search_.nll).all()
    assert joint.temperature_ > 0


# What is refused


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"beta": -0.1}, r"beta \(a number, or 'auto'\) must be a number of at least 0, not -0.1"),
        ({"beta": "large"}, r"beta \(a number, or 'auto'\) must be a number of at least 0, not 'large'"),
        ({"beta": "auto", "betas": (0.1, -1)}, "each of betas must be a number of at least 0, not -1"),
        ({"n_members": 0}, "n_members must be a whole number of at least 1, not 0"),
        ({"max_iter": 0}, "max_iter must be a whole number of at least 1, not 0"),
        ({"model": "mpl"}, "Unknown model 'mpl'. Did you mean 'mlp'"),
        ({"model": object()}, r"model must be text or a nu\.Model .* not <object"),
        ({"model_options": {"hiden": (8,)}}, "Unknown mlp option 'hiden'. Did you mean 'hidden'"),
        ({"labels": "share"}, "Unknown label scheme 'share'. Did you mean 'shared'"),
        ({"standardize": "yes"}, "standardize must be True, False or 'auto', not 'yes'"),
        ({"beta": "auto", "cv": 1}, "cv must be a whole number of at least 2, not 1"),
        ({"beta": "auto", "cv": []}, "cv yields no split"),
        ({"beta": "auto", "cv": "five"}, "cv is 'five'; give a number of folds"),
        ({"beta": "auto", "cv": 2.5}, "cv is 2.5; give a number of folds"),
        ({"beta": "auto", "cv": [([0, 1], [2, 40])]}, "row numbers from 0 to 39, or a bool for each row of X"),
        ({"beta": "auto", "cv": [([0, 1], [-1])]}, "row numbers from 0 to 39"),
        ({"beta": "auto", "cv": [([True, False], [False, True])]}, "a bool for each row of X"),
        ({"augment": "flip_crop"}, r"Only images are flipped and cropped.*rows have shape \(4,\)"),
        ({"beta": "auto", "cv": [([], [1, 2])]}, "A split of cv has no labelled row to train on or none to hold out"),
        ({"plan": "fast"}, "Unknown plan 'fast'"),
        ({"resume": True, "run_folder": None}, "resume=True needs the run_folder"),
        ({"batch_size": 0}, "batch_size must be a whole number of at least 1"),
    ],
)
def test_options_that_cannot_be_used_are_refused(blobs, tmp_path: Path, options: dict[str, Any], sentence: str) -> None:
    x, y, u = blobs
    with pytest.raises(InputError, match=sentence):
        fixed(**{"run_folder": tmp_path / "run", **options}).fit(x, y, X_unlabeled=u)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("method", [nu.methods.Nu, 3])
def test_a_method_that_is_no_method_is_refused(blobs, method: Any) -> None:
    x, y, u = blobs
    with pytest.raises(InputError, match=r"method must be a name, such as 'nu', or an instance"):
        nu.EnsembleClassifier(method).fit(x, y, X_unlabeled=u)
    with pytest.raises(InputError, match=r"method must be a name, such as 'nu', or an instance"):
        nu.fit("mlp", x, y, u, method)


def test_counts_of_any_whole_type_mean_the_same(fitted, blobs) -> None:
    x, y, u = blobs
    small = {name: np.uint8(SMALL[name]) for name in ("n_members", "batch_size", "max_iter")}
    assert_same_bits(fixed(**small).fit(x, y, X_unlabeled=u), fitted)
    assert fitted.n_iter_ <= SMALL["max_iter"]


def test_an_unknown_method_suggests_the_nearest(blobs) -> None:
    with pytest.raises(InputError, match=r"Unknown method 'standrad'. Did you mean 'standard'"):
        nu.EnsembleClassifier("standrad").fit(*blobs[:2])


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"X_unlabeled": np.zeros((5, 3))}, r"X_unlabeled has rows of shape \(3,\) where \(4,\) is expected"),
        (
            {"X_unlabeled": np.full((5, 4), np.inf)},
            r"X_unlabeled contains infinity: 20 value\(s\) not finite, the first in row 0",
        ),
        pytest.param(
            {"X_unlabeled": scipy.sparse.csr_matrix((1 << 27, 4))},
            "134,217,728 rows with room for as many do not fit",
            marks=pytest.mark.slow,
        ),
        ({"X_unlabeled": 3.0}, r"X_unlabeled has shape \(\); give one row per sample"),
        ({"X": np.full((40, 4), np.inf)}, "X contains infinity"),
        ({"y": None}, "requires y to be passed"),
        ({"y": np.zeros(40)}, "y holds one class only"),
        ({"y": np.linspace(0, 1, 40)}, "Unknown label type"),
        ({"sample_weight": np.zeros(40)}, "at least one non-zero"),
    ],
)
def test_data_that_cannot_be_used_are_refused(blobs, changes: dict[str, Any], sentence: str) -> None:
    x, y, u = blobs
    with pytest.raises(ValueError, match=sentence):
        auto().fit(**{"X": x, "y": y, "X_unlabeled": u, **changes})


def test_a_class_with_a_single_row_is_learnt_and_named(blobs) -> None:
    x, y, u = blobs
    with pytest.warns(DataWarning, match=r"A single labelled row in class 7: it trains in every fold"):
        clf = auto().fit(x, np.r_[y[:39], 7], X_unlabeled=u)
    assert clf.classes_.tolist() == [0, 1, 2, 7]
    assert clf.search_ is not None
    assert 39 not in clf.search_.out_of_fold.rows


def test_a_validation_set_with_a_class_that_does_not_train_is_refused(blobs) -> None:
    x, y, u = blobs
    with pytest.raises(InputError, match=r"label 7, which is not among the classes \[0, 1, 2\]"):
        auto().fit(x, y, X_unlabeled=u, validation=(x[:3], [0, 1, 7]))


def test_rows_all_marked_unlabelled_are_refused(blobs) -> None:
    with pytest.raises(InputError, match=r"Every row is marked unlabelled \(y == -1\); label some of them"):
        fixed(unlabeled_label=-1).fit(blobs[0], np.full(40, -1))
