"""Sparse matrices too large to be made dense: the numbers of dense ones, and refusals that say what to do."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.tables import sparse_rows

COLUMNS = 70  # of so many the network makes no ramps
SMALL: dict[str, Any] = {"n_members": 2, "max_iter": 3, "cv": 2, "random_state": 0}


def words(n_rows: int, seed: int) -> tuple[scipy.sparse.csr_matrix, np.ndarray]:
    """Few of many words a row; the first ones are frequent in one class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 2
    chance = np.where((np.arange(COLUMNS) < 8) & (y[:, None] == 1), 0.4, 0.1)
    return scipy.sparse.csr_matrix((rng.random((n_rows, COLUMNS)) < chance) * rng.random((n_rows, COLUMNS))), y


(X, Y), (U, _), (NEW, Y_NEW) = words(40, 0), words(50, 1), words(30, 2)


@pytest.fixture
def none_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if all matrices were too large to be made dense."""
    monkeypatch.setattr(sparse_rows, "MOST_DENSE", 10)


@pytest.fixture(scope="module")
def fitted() -> nu.NuEnsembleClassifier:
    """Trained on pairs; asked for predictions, it meets matrices that are small again."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_rows, "MOST_DENSE", 10)
        return nu.NuEnsembleClassifier(beta=0.01, **SMALL).fit(X, Y, U)


def test_they_train_and_predict_to_the_numbers_of_dense_rows(fitted, monkeypatch: pytest.MonkeyPatch) -> None:
    dense = nu.NuEnsembleClassifier(beta=0.01, **SMALL).fit(X, Y, U)
    expected = dense.predict_proba(NEW)
    np.testing.assert_allclose(fitted.predict_proba(NEW), expected, rtol=1e-4)
    monkeypatch.setattr(sparse_rows, "MOST_DENSE", 10)
    monkeypatch.setattr("nu_ensembles.ensemble.trained.VALUES_PER_PASS", 700)  # a dozen rows, or two
    for each in (fitted, dense):
        np.testing.assert_allclose(each.predict_proba(NEW), expected, rtol=1e-4)
    assert (fitted.shift_.p > 0.01, fitted.n_features_in_) == (True, COLUMNS)


def test_a_model_of_dense_rows_that_are_centred_predicts_them_part_by_part(none_is_small) -> None:
    rows, new = (part.toarray() + 1 for part in (X, NEW))
    clf = nu.EnsembleClassifier("standard", **SMALL).fit(rows, Y)
    assert clf.ensemble_.standardisation is not None
    assert clf.ensemble_.standardisation.mean.any()
    expected = clf.predict_proba(new)
    np.testing.assert_allclose(clf.predict_proba(scipy.sparse.csr_matrix(new)), expected, rtol=1e-6)


def test_they_are_saved_evaluated_and_reported_as_all_others(fitted, none_is_small, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    again = nu.NuEnsembleClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict_proba(NEW), fitted.predict_proba(NEW))
    assert fitted.ensemble_.row_shape == (COLUMNS,)
    assert 0 < again.evaluate(NEW, Y_NEW)["nll"] < 2
    far = NEW.copy()
    far[3, 5] = 1e3
    assert "column 6 is 1000" in again.report(far, Y_NEW, path=tmp_path / "page.html").read_text()


def test_validation_rows_may_be_fuller_than_all_others(none_is_small) -> None:
    full = (scipy.sparse.csr_matrix(np.ones((10, COLUMNS))), np.arange(10) % 2)
    ensemble = nu.fit("mlp", X, Y, U, n_members=2, steps=2, validation=full)
    assert len(ensemble.history) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"companion": "forest"}, r"companion='forest' is for tables, .* or of a large sparse matrix: leave it out"),
        ({"model": "lenet"}, "LeNet takes images"),
        ({"model": nu.Model(lambda key, x: x, lambda at, x, **_: x[:, :2])}, "only 'mlp' and 'mlp_large' take"),
        ({"augment": lambda key, x: x}, "and augment changes dense rows only; do without it"),
        ({"column_types": {"x0": "category"}}, "X is a large sparse matrix, all of numbers; leave column_types out"),
    ],
)
def test_what_needs_dense_rows_is_refused(none_is_small, options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        nu.NuEnsembleClassifier(beta=0.01, **SMALL, **options).fit(X, Y, U)


def test_methods_that_change_rows_and_tables_beside_them_are_refused(none_is_small) -> None:
    with pytest.raises(InputError, match="the method 'mixup' changes dense rows only"):
        nu.fit("mlp", X, Y, method="mixup", n_members=1, steps=1)
    with pytest.raises(InputError, match="x_unlabeled has 4 columns where 70 are expected"):
        nu.fit("mlp", X, Y, np.zeros((5, 4)), n_members=1, steps=1)
