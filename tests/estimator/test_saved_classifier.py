"""A classifier goes to a folder and comes back; it scores itself on labels of any type."""

from __future__ import annotations

import math

import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import DamagedFileError, DataWarning, InputError
from nu_ensembles.tables import RawTable

QUICK = {"n_members": 3, "model_options": {"hidden": (8,)}, "random_state": 0}


@pytest.fixture(scope="module")
def fitted(blobs):
    x, y, u = blobs
    names = np.array(["ant", "bee", "cat"])
    classifier = nu.NuEnsembleClassifier(max_iter=20, cv=3, betas=(0.01,), calibration="temperature", **QUICK)
    table = RawTable.of_numbers(x, ["a", "b", "c", "d"])
    return classifier.fit(table, names[y], X_unlabeled=RawTable.of_numbers(u, ["a", "b", "c", "d"])), table, names[y]


def test_a_saved_classifier_comes_back_as_it_was(fitted, tmp_path):
    classifier, x, _ = fitted
    classifier.save(tmp_path / "model")
    found = nu.NuEnsembleClassifier.load(tmp_path / "model")
    assert type(found) is nu.NuEnsembleClassifier
    np.testing.assert_array_equal(found.predict_proba(x), classifier.predict_proba(x))
    np.testing.assert_array_equal(found.predict(x), classifier.predict(x))
    np.testing.assert_array_equal(found.predict_members(x), classifier.predict_members(x))
    for name in ("verdict_", "beta_", "n_steps_", "n_iter_", "temperature_", "n_features_in_", "shift_"):
        assert getattr(found, name) == getattr(classifier, name), name
    for name in ("classes_", "feature_names_in_"):
        np.testing.assert_array_equal(getattr(found, name), getattr(classifier, name))
    assert found.cv_results_ is not None
    for name, column in classifier.cv_results_.items():
        np.testing.assert_array_equal(found.cv_results_[name], column)
    params = classifier.get_params()
    assert found.get_params() == {**params, "model_options": {"hidden": [8]}}
    # It is a classifier like any other: it can be saved again, and fitted anew.
    found.save(tmp_path / "again")
    assert nu.NuEnsembleClassifier.load(tmp_path / "again").get_params() == found.get_params()


def test_any_classifier_loads_the_kind_that_was_saved(fitted, blobs, tmp_path):
    fitted[0].save(tmp_path / "nu")
    assert type(nu.EnsembleClassifier.load(tmp_path / "nu")) is nu.NuEnsembleClassifier
    x, y, _ = blobs
    nu.EnsembleClassifier("standard", max_iter=2, **QUICK).fit(x, y).save(tmp_path / "standard")
    found = nu.EnsembleClassifier.load(tmp_path / "standard")
    assert (found.method, found.n_features_in_, hasattr(found, "feature_names_in_")) == ("standard", 4, False)
    assert (found.cv_results_, found.shift_, found.calibrator_) == (None, None, None)
    assert math.isnan(found.temperature_)
    with pytest.raises(InputError, match=r"holds an ensemble of another method; load it with EnsembleClassifier\.load"):
        nu.NuEnsembleClassifier.load(tmp_path / "standard")


def test_an_ensemble_that_was_saved_alone_makes_a_classifier(fitted, tmp_path):
    classifier, x, _ = fitted
    classifier.ensemble_.save(tmp_path / "ensemble")
    found = nu.NuEnsembleClassifier.load(tmp_path / "ensemble")
    np.testing.assert_array_equal(found.predict_proba(x), classifier.predict_proba(x))
    assert found.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    assert (found.n_members, found.verdict_) == (3, classifier.verdict_)


def test_what_a_file_cannot_hold_is_named(blobs, tmp_path):
    x, y, _ = blobs
    classifier = nu.EnsembleClassifier("standard", max_iter=2, class_weight={0: 2.0, 1: 1.0, 2: 1.0}, **QUICK)
    classifier.fit(x, y).save(tmp_path / "model")
    with pytest.warns(DataWarning, match="was fitted with class_weight of its own, which a file cannot hold"):
        assert nu.EnsembleClassifier.load(tmp_path / "model").class_weight is None


def test_a_classifier_of_another_version_is_refused(fitted, tmp_path, monkeypatch):
    classifier = fitted[0]
    monkeypatch.setitem(classifier.ensemble_.training, "classifier", {})
    changed = nu.Ensemble(**{**vars(classifier.ensemble_), "training": {"classifier": {"params": {"members": 3}}}})
    changed.save(tmp_path / "newer")
    with pytest.raises(InputError, match="has an argument 'members' that this version does not know"):
        nu.NuEnsembleClassifier.load(tmp_path / "newer")
    changed = nu.Ensemble(**{**vars(classifier.ensemble_), "training": {"classifier": {"shift_": {"auroc": 1}}}})
    changed.save(tmp_path / "altered")
    with pytest.raises(DamagedFileError, match="'shift_' was altered"):
        nu.NuEnsembleClassifier.load(tmp_path / "altered")


def test_it_scores_itself_on_labels_of_any_type(fitted):
    classifier, x, y = fitted
    scores = classifier.evaluate(x, y)
    assert scores["accuracy"] == classifier.score(x, y)
    by_hand = nu.metrics.evaluate(classifier.predict_proba(x), y, classes=classifier.classes_)
    assert (scores["nll"], scores["ece"]) == (by_hand["nll"], by_hand["ece"])
    of_members = nu.metrics.evaluate(classifier.predict_members(x), y, classes=classifier.classes_)
    assert scores["mutual_information"] == of_members["mutual_information"]
    some = np.where(np.arange(len(y)) < 10, None, y)
    assert classifier.evaluate(x, some)["accuracy"] == classifier.score(x[10:], y[10:])
    assert classifier.evaluate(x, y, intervals=0.9)["accuracy_low"] <= scores["accuracy"]
    with pytest.raises(InputError, match="y holds the label 'dog', which is not among the classes"):
        classifier.evaluate(x, np.where(y == "cat", "dog", y))
    with pytest.raises(InputError, match="y holds no label at all"):
        classifier.evaluate(x, [None] * len(y))


def test_a_notebook_shows_the_verdict_before_the_arguments(fitted):
    classifier = fitted[0]
    html = classifier._repr_html_()
    assert html.startswith("<div style=")
    before = html.split("<style>")[0]
    assert classifier.verdict_.split("'")[0] in before
    assert "3 members · 3 classes · " in before
    assert "40 labelled rows · 50 unlabelled rows" in before
    assert "members ·" not in nu.NuEnsembleClassifier()._repr_html_()
