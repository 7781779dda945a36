"""companion="forest": what a classifier learns beside its networks, says of it, and keeps in a file."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles import storage, tuning
from nu_ensembles.calibration import MemberTemperature, pool
from nu_ensembles.ensemble.files import MANIFEST
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.estimator.wanted import check_companion
from nu_ensembles.tuning import accompanying

SMALL: dict[str, Any] = {
    "n_members": 3,
    "model_options": {"hidden": (8,)},
    "batch_size": 8,
    "max_iter": 4,
    "learning_rate": 0.01,
    "random_state": 0,
    "cv": 3,
}


def classifier(**options: Any) -> Any:
    return nu.NuEnsembleClassifier(**{"beta": 0.1, **SMALL, **options})


@pytest.fixture(scope="module", autouse=True)
def few_trees() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(accompanying, "TREES", 20)
        patch.setattr(accompanying, "TREES_OF_A_FOLD", 20)
        yield


@pytest.fixture(scope="module")
def alone(blobs) -> Any:
    x, y, u = blobs
    return classifier().fit(x, y, X_unlabeled=u)


@pytest.fixture(scope="module")
def accompanied(blobs) -> Any:
    x, y, u = blobs
    return classifier(companion="forest").fit(x, y, X_unlabeled=u)


def test_the_networks_are_those_without_and_their_mean_is_pooled_with_the_forest(accompanied, alone, blobs) -> None:
    x, _, _ = blobs
    jax.tree.map(np.testing.assert_array_equal, accompanied.ensemble_.params, alone.ensemble_.params)
    np.testing.assert_array_equal(accompanied.predict_members(x), alone.predict_members(x))
    companion = accompanied.companion_
    assert 0 < companion.weight < 1
    forest = companion.forest.probabilities(accompanied.ensemble_.standardisation(x))
    expected = pool([alone.predict_proba(x), forest], [1 - companion.weight, companion.weight])
    np.testing.assert_allclose(accompanied.predict_proba(x), expected, atol=1e-6)
    assert (accompanied.predict(x) == accompanied.classes_[expected.argmax(axis=1)]).all()


def test_the_verdict_says_what_it_weighs_and_what_folds_outside_the_weight_show(accompanied, alone) -> None:
    weighs = r"Pooled with a tempered forest of weight 0\.\d\d \(companion='forest'\)"
    assert re.search(weighs + r": (no clear gain|NLL .* than the networks alone) out of fold\.", accompanied.verdict_)
    assert "Pooled" not in alone.verdict_
    assert alone.companion_ is None


def test_a_saved_ensemble_pools_as_the_classifier_does(accompanied, blobs, tmp_path: Path) -> None:
    x, y, _ = blobs
    accompanied.save(tmp_path / "model")
    again = nu.Ensemble.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(x), accompanied.predict_proba(x))
    np.testing.assert_array_equal(again.predict_members(x), accompanied.predict_members(x))
    assert not again.is_mean_of_members
    whole: Any = nu.NuEnsembleClassifier.load(tmp_path / "model")
    assert (whole.companion, whole.companion_.weight) == ("forest", accompanied.companion_.weight)
    np.testing.assert_array_equal(whole.predict_proba(x), accompanied.predict_proba(x))
    assert whole.evaluate(x, y)["nll"] == nu.metrics.evaluate(accompanied.predict_proba(x), y)["nll"]
    assert "pooled with a forest" in repr(again)
    assert storage.read_sealed_json(tmp_path / "model" / MANIFEST, "The manifest")["format"] >= 5


@pytest.mark.parametrize(
    ("entry", "told"),
    [
        ({"weight": 1.5}, "should be a number from 0 to 1"),
        ({"temperature": 0}, "a number above 0"),
        ({"kind": "pickle"}, "should be one of 'forest'"),
    ],
)
def test_an_altered_companion_is_refused(entry: dict[str, Any], told: str, accompanied, tmp_path: Path) -> None:
    accompanied.save(tmp_path / "model")
    manifest = storage.read_sealed_json(tmp_path / "model" / MANIFEST, "The manifest")
    manifest["companion"] |= entry
    storage.write_sealed_json(tmp_path / "model" / MANIFEST, manifest)
    with pytest.raises(DamagedFileError, match=told):
        nu.Ensemble.load(tmp_path / "model")


def test_a_companion_whose_trees_are_missing_is_refused(accompanied, alone, tmp_path: Path) -> None:
    alone.save(tmp_path / "model")
    manifest = storage.read_sealed_json(tmp_path / "model" / MANIFEST, "The manifest")
    manifest["companion"] = accompanied.companion_.numbers()
    storage.write_sealed_json(tmp_path / "model" / MANIFEST, manifest)
    with pytest.raises(DamagedFileError, match="hold a companion that cannot be used: A forest has the arrays"):
        nu.Ensemble.load(tmp_path / "model")


def test_a_calibrator_is_fitted_to_the_pool_and_applied_to_it(accompanied, blobs) -> None:
    x, y, u = blobs
    both = classifier(companion="forest", calibration="vector_scaling").fit(x, y, X_unlabeled=u)
    assert both.companion_.weight == accompanied.companion_.weight
    expected = both.calibrator_.apply(accompanied.predict_proba(x))
    np.testing.assert_allclose(both.predict_proba(x), expected, atol=1e-6)
    assert both.verdict_.index("Pooled with") < both.verdict_.index("Calibrated by")
    of_members = MemberTemperature().fit(both.predict_members(x), np.zeros(len(x), int))
    with pytest.raises(InputError, match="'member_temperature' is applied to members, and a companion is none"):
        dataclasses.replace(both.ensemble_, calibrator=of_members)


def test_weights_are_learnt_on_the_folds_of_the_search_and_scored_on_folds_outside(blobs) -> None:
    x, y, u = blobs
    fitted = classifier(beta="auto", betas=(0.1,), companion="forest").fit(x, y, X_unlabeled=u)
    found = fitted.search_.out_of_fold
    assert len(found.folds) == 6  # three folds, dealt twice below a hundred labels
    assert 0 < fitted.companion_.weight < 1
    assert fitted.verdict_.count("companion='forest'") == 1


def test_a_validation_set_takes_the_place_of_the_folds(blobs) -> None:
    x, y, u = blobs
    shown = x[:30:2], y[:30:2]
    fitted = classifier(companion="forest", early_stopping=True).fit(x[1::2], y[1::2], u, validation=shown)
    assert " on the validation rows." in fitted.verdict_


def test_sample_weights_reach_the_forest(blobs) -> None:
    x, y, u = blobs
    even = classifier(companion="forest").fit(x, y, X_unlabeled=u)
    weight = np.where(y == y[0], 5.0, 1.0)
    heavy = classifier(companion="forest").fit(x, y, X_unlabeled=u, sample_weight=weight)
    one = even.classes_.tolist().index(y[0])
    rows = even.ensemble_.standardisation(x)
    less, more = (each.companion_.forest.probabilities(rows)[:, one].mean() for each in (even, heavy))
    assert more > less


@pytest.mark.parametrize("companion", [True, "trees", 5, ["forest"]])
def test_what_is_no_companion_is_refused_with_what_would_do(companion: Any, blobs) -> None:
    x, y, _ = blobs
    with pytest.raises(InputError, match=r"give 'forest' or None\. nu\.Blend pools any classifiers with predict_proba"):
        classifier(companion=companion).fit(x, y)


def test_images_are_refused_before_anything_is_trained(digits) -> None:
    x, y = digits
    images = x[:60].reshape(-1, 8, 8, 1)
    with pytest.raises(
        InputError, match=r"is for tables, and the networks get rows of shape \(8, 8, 1\) here, as of images"
    ):
        nu.NuEnsembleClassifier(model="lenet", companion="forest").fit(images, y[:60], X_unlabeled=images)


def test_a_table_as_it_is_may_have_gaps_and_text(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    size = np.where(rng.random(40) < 0.2, np.nan, rng.normal(size=40))
    frame = pandas.DataFrame({"size": size, "kind": rng.choice(["a", "b"], 40)})
    y = np.arange(40) % 2
    fitted = classifier(companion="forest").fit(frame, y)
    fitted.save(tmp_path / "model")
    again = nu.Ensemble.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(frame), fitted.predict_proba(frame))


def test_nothing_is_accompanied_where_nothing_was_asked_for() -> None:
    assert check_companion(None, (8, 8, 1)) is False
    assert not tuning.Wanted().companion
