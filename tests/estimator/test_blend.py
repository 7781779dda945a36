"""A blend pools any classifiers, with weights that rows decide which no classifier was trained on."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn import base
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, GroupKFold, KFold, LeaveOneOut, ShuffleSplit
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import nu_ensembles as nu
from nu_ensembles.errors import InputError

TWO = (GaussianNB(), DecisionTreeClassifier(max_depth=2, random_state=0))


def clone(estimator: Any) -> Any:
    """scikit-learn's, whose type is that of anything that can be cloned."""
    return base.clone(estimator)


class Recorder(ClassifierMixin, BaseEstimator):
    """Says the same of every row, and keeps what each fit was given."""

    fits: list[dict[str, Any]] = []  # noqa: RUF012

    def __init__(self, certainty: float = 0.8) -> None:
        self.certainty = certainty

    def fit(self, X: Any, y: Any, X_unlabeled: Any = None, sample_weight: Any = None) -> Recorder:
        Recorder.fits.append({"X": X, "y": list(y), "X_unlabeled": X_unlabeled, "sample_weight": sample_weight})
        self.classes_ = np.unique(y)
        return self

    def predict_proba(self, X: Any) -> NDArray:
        rest = (1 - self.certainty) / max(1, len(self.classes_) - 1)
        return np.tile([self.certainty, *[rest] * (len(self.classes_) - 1)], (len(X), 1))


@pytest.fixture(autouse=True)
def nothing_recorded() -> None:
    Recorder.fits.clear()


def rows_of(y: list[Any]) -> NDArray:
    return np.arange(len(y), dtype=float)[:, None]


@pytest.mark.parametrize(
    ("pooling", "expected"), [("geometric", [0.75, 0.25]), ("arithmetic", [0.7, 0.3])], ids=lambda value: str(value)
)
def test_given_weights_pool_as_the_formula_says(pooling: str, expected: list[float]) -> None:
    blend = nu.Blend([Recorder(0.9), Recorder(0.5)], pooling=pooling, weights=[2, 2])
    y = ["a", "b"]
    np.testing.assert_allclose(blend.fit(rows_of(y), y).predict_proba([[7.0]]), [expected])
    assert blend.predict([[7.0]]) == ["a"]
    np.testing.assert_array_equal(blend.weights_, [0.5, 0.5])
    assert blend.oof_probabilities_ is None
    assert len(Recorder.fits) == 2  # no folds


def test_learnt_weights_prefer_who_predicts_rows_that_it_has_not_seen(blobs) -> None:
    x, y, _ = blobs
    blend = nu.Blend([GaussianNB(), DummyClassifier(strategy="most_frequent")]).fit(x, y)
    assert blend.weights_[0] > 0.6
    assert blend.weights_.sum() == pytest.approx(1.0)
    equal = nu.Blend(TWO, weight_prior=1e9).fit(x, y)
    np.testing.assert_allclose(equal.weights_, 0.5, atol=1e-6)


def test_the_predictions_that_it_learnt_from_are_kept(blobs) -> None:
    x, y, _ = blobs
    blend = nu.Blend(TWO, random_state=0).fit(x, y)
    assert blend.oof_probabilities_.shape == (2, 40, 3)
    assert sorted(set(blend.fold_of_)) == [0, 1, 2, 3, 4]
    inside = blend.fold_of_ != 3
    apart = clone(TWO[0]).fit(x[inside], y[inside]).predict_proba(x[~inside])
    np.testing.assert_allclose(blend.oof_probabilities_[0, ~inside], apart)
    weights = nu.calibration.pooling_weights(list(blend.oof_probabilities_), y)
    np.testing.assert_allclose(blend.weights_, weights)


def test_a_class_with_a_single_row_trains_in_every_fold_and_is_never_held_out() -> None:
    y = ["a", "a", "a", "b", "b", "b", "only"]
    blend = nu.Blend([Recorder(), Recorder(0.7)], cv=3).fit(rows_of(y), y)
    assert all("only" in fit["y"] for fit in Recorder.fits)
    assert blend.fold_of_[-1] == -1
    assert np.isnan(blend.oof_probabilities_[:, -1]).all()
    assert np.isfinite(blend.oof_probabilities_[:, :-1]).all()
    assert blend.predict_proba([[0.0]]).shape == (1, 3)


def test_where_every_class_has_a_single_row_the_weights_are_equal() -> None:
    y = ["a", "b", "c"]
    blend = nu.Blend([Recorder(), Recorder(0.5)]).fit(rows_of(y), y)
    np.testing.assert_array_equal(blend.weights_, [0.5, 0.5])


def test_columns_are_aligned_where_a_fold_lacks_a_class() -> None:
    y = np.array([0, 0, 1, 1, 2, 2])
    blend = nu.Blend([Recorder(0.8), Recorder(0.6)], cv=KFold(3)).fit(rows_of(list(y)), y)
    # The first fold holds out class 0: the others' predictions of it have no such column.
    np.testing.assert_allclose(blend.oof_probabilities_[0, 0], [0.0, 0.8, 0.2])
    np.testing.assert_allclose(blend.oof_probabilities_[0, 4], [0.8, 0.2, 0.0])
    assert np.isfinite(blend.weights_).all()


def test_rows_that_are_held_out_twice_have_their_mean_prediction(blobs) -> None:
    x, y, _ = blobs
    splits = [(np.arange(20), np.arange(20, 40)), (np.arange(10, 20), np.arange(20, 40))]
    blend = nu.Blend([GaussianNB()], cv=splits).fit(x, y)
    each = [clone(TWO[0]).fit(x[train], y[train]).predict_proba(x[held_out]) for train, held_out in splits]
    np.testing.assert_allclose(blend.oof_probabilities_[0, 20:], np.mean(each, axis=0))
    assert np.isnan(blend.oof_probabilities_[0, :20]).all()
    np.testing.assert_array_equal(blend.fold_of_, np.repeat([-1, 0], 20))


@pytest.mark.parametrize("cv", [2, LeaveOneOut(), ShuffleSplit(3, random_state=0)], ids=str)
def test_other_ways_to_split_do(cv: Any, blobs) -> None:
    x, y, _ = blobs
    assert nu.Blend(TWO, cv=cv).fit(x, y).score(x, y) > 0.5


def test_unlabelled_rows_reach_those_who_take_them() -> None:
    y, unlabelled = ["a", "b", "a", "b"], nu.Unlabeled(np.ones((9, 1)))
    nu.Blend([Recorder(), GaussianNB()], cv=2).fit(rows_of(y), y, X_unlabeled=unlabelled)
    assert len(Recorder.fits) == 3
    assert all(fit["X_unlabeled"] is unlabelled for fit in Recorder.fits)


def test_weights_of_rows_are_sliced_with_them_and_rows_without_weight_are_left_out() -> None:
    y, weight = ["a", "b", "a", "b", "c"], [1.0, 2.0, 3.0, 4.0, 0.0]
    blend = nu.Blend([Recorder(), DummyClassifier()], cv=2).fit(rows_of(y), y, sample_weight=weight)
    assert list(blend.classes_) == ["a", "b"]
    for fit in Recorder.fits:
        np.testing.assert_array_equal(fit["sample_weight"], fit["X"][:, 0] + 1)
    assert [len(fit["y"]) for fit in Recorder.fits] == [2, 2, 4]


def test_classifiers_of_this_package_blend_with_others(blobs) -> None:
    x, y, u = blobs
    small = nu.NuEnsembleClassifier(
        2, beta=0.01, max_iter=5, model_options={"hidden": ()}, standardize=False, random_state=0
    )
    blend = nu.Blend([small, nu.TemperedForest(20, random_state=0)], cv=2).fit(x, y, X_unlabeled=u)
    assert blend.classifiers_[0].ensemble_.training["method"] == "nu"
    np.testing.assert_allclose(blend.predict_proba(x).sum(axis=1), 1.0)


def test_a_blend_stands_in_a_pipeline_and_a_grid_search(blobs) -> None:
    x, y, _ = blobs
    pipeline = make_pipeline(StandardScaler(), nu.Blend(TWO, random_state=0))
    grid = {"blend__pooling": ["geometric", "arithmetic"], "blend__0": [GaussianNB()], "blend__1__max_depth": [1, 3]}
    search = GridSearchCV(pipeline, grid, cv=2, scoring="neg_log_loss").fit(x, y)
    assert search.best_estimator_[1].classifiers[1].max_depth in (1, 3)
    assert search.best_estimator_.predict_proba(x).shape == (40, 3)


def test_a_clone_is_as_new_and_shares_no_classifier() -> None:
    blend = nu.Blend([LogisticRegression(C=2.0), GaussianNB()], cv=3)
    copy = clone(blend)
    assert copy.classifiers[0] is not blend.classifiers[0]
    assert copy.set_params(**{"0__C": 5.0}).get_params()["0__C"] == 5.0
    assert blend.get_params()["0__C"] == 2.0
    assert isinstance(copy.set_params(**{"1": LogisticRegression()}).classifiers[1], LogisticRegression)


def test_fitting_leaves_the_classifiers_that_were_given_alone(blobs) -> None:
    x, y, _ = blobs
    mine = GaussianNB()
    nu.Blend([mine, TWO[1]]).fit(x, y)
    assert not hasattr(mine, "theta_")


def test_the_same_seed_gives_the_same_bits(blobs) -> None:
    x, y, _ = blobs
    once, again = (nu.Blend(TWO, random_state=3).fit(x, y).predict_proba(x) for _ in range(2))
    np.testing.assert_array_equal(once, again)


REFUSED = [
    (nu.Blend([]), "takes a list of classifiers"),
    (nu.Blend(LogisticRegression()), "takes a list of classifiers"),  # pyright: ignore[reportArgumentType]
    (nu.Blend([LogisticRegression]), "give classifiers, such as LogisticRegression()"),
    (nu.Blend(["logistic"]), "Blend cannot use 'logistic'"),
    (nu.Blend([GaussianNB(), LinearSVC()]), "LinearSVC.* has no predict_proba"),
    (nu.Blend(TWO, pooling="geometrical"), "Did you mean 'geometric'"),
    (nu.Blend(TWO, weights="oof"), "weights must be 'out_of_fold' or a number for each classifier, not 'oof'"),
    (nu.Blend(TWO, weights=[1.0]), "give 2 finite numbers"),
    (nu.Blend(TWO, weights=[1.0, -1.0]), "give 2 finite numbers"),
    (nu.Blend(TWO, weight_prior=-1.0), "weight_prior must be a number of at least 0"),
    (nu.Blend(TWO, cv=1), "cv must be a whole number of at least 2"),
    (nu.Blend(TWO, cv="five"), "cv cannot split these rows"),
    (nu.Blend(TWO, cv=GroupKFold(2)), "cv cannot split these rows"),
    (nu.Blend(TWO, cv=[([0, 1], [999])]), "row numbers from 0 to 39"),
    (nu.Blend(TWO, cv=[([0, 1], [])]), "none to hold out"),
]


@pytest.mark.parametrize(("blend", "sentence"), REFUSED, ids=[sentence for _, sentence in REFUSED])
def test_what_cannot_be_blended_is_refused_in_one_sentence(blend: nu.Blend, sentence: str, blobs) -> None:
    x, y, _ = blobs
    with pytest.raises(InputError, match=sentence):
        blend.fit(x, y)


def test_unlabelled_rows_that_nobody_takes_are_refused(blobs) -> None:
    x, y, u = blobs
    with pytest.raises(InputError, match="None of the classifiers has a fit that takes X_unlabeled"):
        nu.Blend(TWO).fit(x, y, X_unlabeled=u)


def test_probabilities_of_another_shape_are_refused(blobs) -> None:
    x, y, _ = blobs

    class Short(Recorder):
        def predict_proba(self, X: Any) -> NDArray:
            return super().predict_proba(X)[:, :1]

    with pytest.raises(InputError, match=r"Short gives probabilities of shape \(40, 1\) where \(40, 3\) is expected"):
        nu.Blend([Short()], weights=[1]).fit(x, y).predict_proba(x)


def expected_failures(blend: nu.Blend) -> dict[str, str]:
    if blend.weights != "out_of_fold":
        return {}
    reason = "A row of weight 2 is held out by one fold, a repeated row by two: the weights of the blend differ."
    return {
        "check_sample_weight_equivalence_on_dense_data": reason,
        "check_sample_weight_equivalence_on_sparse_data": reason,
    }


CHECKED = [nu.Blend(TWO), nu.Blend(TWO, "arithmetic", [2.0, 1.0])]


@pytest.mark.filterwarnings("ignore:A column-vector y was passed")
@parametrize_with_checks(CHECKED, expected_failed_checks=expected_failures)
def test_a_blend_passes_the_checks_of_scikit_learn(estimator: Any, check: Any) -> None:
    check(estimator)
