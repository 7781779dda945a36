"""A classifier whose unlabelled rows come from elsewhere: what it chooses by, says, keeps and expects."""

from __future__ import annotations

import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.tuning import ResultUnderShift

SMALL = {"model_options": {"hidden": (8,)}, "batch_size": 8, "learning_rate": 0.01, "max_iter": 6, "random_state": 0}


@pytest.fixture(scope="module")
def fitted(blobs) -> nu.NuEnsembleClassifier:
    x, y, u = blobs
    return nu.NuEnsembleClassifier(3, cv=3, **SMALL).fit(x, y, X_unlabeled=u + 2)


def test_rows_from_elsewhere_are_chosen_by(fitted: nu.NuEnsembleClassifier) -> None:
    assert fitted.shift_ is not None
    assert fitted.shift_.differs
    assert isinstance(fitted.search_, ResultUnderShift)
    assert fitted.verdict_.startswith("The unlabelled rows differ from the labelled ones")
    assert fitted.beta_ in (0, 0.1, 0.3)


def test_what_to_expect_there_is_told_and_saved(fitted: nu.NuEnsembleClassifier, tmp_path) -> None:
    expected = fitted.expected_
    assert expected is not None
    assert 0 <= expected.low <= expected.accuracy <= expected.high <= 1
    assert expected.sentence() in fitted.verdict_
    assert sum(each.predicted_rows for each in expected.by_class.values()) == 50
    fitted.save(tmp_path / "model")
    assert nu.NuEnsembleClassifier.load(tmp_path / "model").expected_ == expected


def test_the_switch_takes_the_rows_for_rows_from_where_the_labels_come_from(blobs) -> None:
    x, y, u = blobs
    found = nu.NuEnsembleClassifier(3, cv=3, betas=(0.01,), deployment=False, **SMALL).fit(x, y, X_unlabeled=u + 2)
    assert not isinstance(found.search_, ResultUnderShift)
    assert "Note that the unlabelled rows differ from the labelled ones (told apart with" in found.verdict_
    assert found.expected_ is not None
    assert found.expected_.differs


def test_rows_from_the_same_place_are_expected_to_do_as_well_as_held_out_ones(blobs) -> None:
    x, y, u = blobs
    found = nu.EnsembleClassifier("standard", 2, early_stopping=True, cv=3, **SMALL).fit(x, y, X_unlabeled=u)
    assert found.shift_ is not None
    assert not found.shift_.differs
    assert found.expected_ is not None
    assert not found.expected_.differs
    assert found.search_ is not None
    right = found.search_.out_of_fold.probabilities[0].argmax(axis=1) == found.search_.out_of_fold.y
    assert found.expected_.accuracy == pytest.approx(right.mean())


def test_nothing_is_expected_where_nothing_can_tell(blobs) -> None:
    x, y, u = blobs
    alone = nu.EnsembleClassifier("standard", 2, **SMALL).fit(x, y)
    assert alone.expected_ is None
    few = nu.EnsembleClassifier("standard", 2, **SMALL).fit(x, y, X_unlabeled=u[:5])
    assert few.expected_ is None
    assert "With less than 10 rows on a side nothing tells whether the unlabelled ones differ." in few.verdict_


def test_a_column_that_no_label_speaks_of_is_named(blobs) -> None:
    x, y, u = blobs
    x = np.concatenate([x, np.ones((40, 1), np.float32)], axis=1)
    u = np.concatenate([u, np.arange(50, dtype=np.float32)[:, None]], axis=1)
    found = nu.EnsembleClassifier("standard", 2, **SMALL).fit(x, y, X_unlabeled=u)
    assert "No labelled row says what these columns mean, which vary among unlabelled rows: column 5." in found.verdict_


def test_a_column_that_is_settled_there_is_named_and_a_rare_value_that_few_rows_lack_is_not(blobs) -> None:
    x, y, u = blobs
    rare = np.eye(1, 40, dtype=np.float32).T
    x = np.concatenate([x, np.arange(40, dtype=np.float32)[:, None], rare], axis=1)
    u = np.concatenate([u, np.ones((50, 1), np.float32), np.zeros((50, 1), np.float32)], axis=1)
    found = nu.EnsembleClassifier("standard", 2, **SMALL).fit(x, y, X_unlabeled=u)
    assert "the same in all unlabelled rows, and not in the labelled ones: column 5." in found.verdict_


def test_a_class_that_no_unlabelled_row_is_predicted_to_be_of_is_named(blobs) -> None:
    x, y, _ = blobs
    model = nu.EnsembleClassifier("standard", 2, **SMALL).fit(x, y, X_unlabeled=np.repeat(x[y == y[0]], 4, axis=0))
    assert model.expected_ is not None
    absent = [str(name) for name in model.classes_ if str(name) not in model.expected_.by_class]
    assert absent
    assert f"No unlabelled row is predicted to be of class {', '.join(absent)}." in model.verdict_
    assert model.verdict_.endswith(model.expected_.limit)


def test_validation_rows_from_there_say_what_to_expect_there(blobs) -> None:
    x, y, u = blobs
    there = x + 3
    fits = {"validation": (there, y), "X_unlabeled": u + 3}
    found = nu.EnsembleClassifier("standard", 2, early_stopping=True, **SMALL).fit(x, y, **fits)
    assert found.shift_ is not None
    assert found.shift_.differs
    assert found.expected_ is not None
    assert found.expected_.limit == f"It rests on {len(y)} labelled rows from there."
