"""The classifiers, `nu.fit` and saved ensembles on tables with text, dates and gaps."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from sklearn.model_selection import cross_val_score

import nu_ensembles as nu
from nu_ensembles.errors import DataWarning, InputError

pa = pytest.importorskip("pyarrow")

pytestmark = pytest.mark.filterwarnings("ignore:There is no unlabelled data")
Y = np.arange(40) % 2


def columns(n_rows: int = 40, seed: int = 0) -> dict[str, list[Any]]:
    """Numbers with a gap, text, truth values and dates; the first two know the class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n_rows) % 2
    height: list[Any] = (rng.normal(size=n_rows) + 2 * y).tolist()
    height[3] = None
    return {
        "height": height,
        "city": np.where(rng.random(n_rows) < 0.2 + 0.6 * y, "Oslo", "Rome").tolist(),
        "tall": (rng.random(n_rows) < 0.5).tolist(),
        "day": (np.datetime64("2024-01-01") + rng.integers(0, 100, n_rows)).astype(object).tolist(),
    }


TRAIN, MORE, NEW = pa.table(columns(40, 0)), pa.table(columns(50, 1)), pa.table(columns(20, 2))
TURNED = list(reversed(TRAIN.column_names))


def classifier(**options: Any) -> nu.NuEnsembleClassifier:
    small = {"n_members": 2, "beta": 0.01, "max_iter": 5, "model_options": {"hidden": (8,)}, "random_state": 0}
    return nu.NuEnsembleClassifier(**{**small, **options})


@pytest.fixture(scope="module")
def fitted() -> nu.NuEnsembleClassifier:
    return classifier().fit(TRAIN, Y, X_unlabeled=MORE)


def test_frames_train_as_they_are_and_columns_are_found_by_name(fitted) -> None:
    probabilities = fitted.predict_proba(NEW)
    assert probabilities.shape == (20, 2)
    np.testing.assert_array_equal(fitted.predict_proba(NEW.select(TURNED)), probabilities)
    again = classifier().fit(TRAIN, Y, X_unlabeled=nu.Unlabeled(MORE.select(TURNED)))
    np.testing.assert_array_equal(again.predict_proba(NEW), probabilities)
    assert fitted.feature_names_in_.tolist() == TRAIN.column_names
    assert fitted.n_features_in_ == 4
    assert 0 <= fitted.score(NEW, Y[:20]) <= 1


def test_the_saved_ensemble_knows_its_columns(fitted, tmp_path: Path) -> None:
    fitted.save(tmp_path / "model")
    loaded = nu.Ensemble.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(NEW.select(TURNED)), fitted.predict_proba(NEW))
    assert loaded.columns == ("height", "city", "tall", "day")
    assert loaded.input_shape == (4,)
    described = loaded.describe_columns()
    assert described["height"].startswith("number; 2 gaps filled with the median")
    assert described["city"].startswith("category, an indicator each for 'Oslo', 'Rome'")
    assert described["day"].startswith("date, as days since 2024-01-02 and as place in the week")


def test_members_are_added_to_an_ensemble_of_the_same_columns_only() -> None:
    options: dict[str, Any] = {"method": "standard", "steps": 2}
    one = nu.fit("mlp", TRAIN, Y, n_members=1, **options)
    assert nu.fit("mlp", TRAIN, Y, n_members=2, add_to=one, **options).n_members == 2
    with pytest.raises(InputError, match="another input shape and table of inputs"):
        nu.fit("mlp", TRAIN.select(["height", "city"]), Y, n_members=2, add_to=one, **options)


def test_all_libraries_give_the_same_bits(fitted) -> None:
    pd, pl = pytest.importorskip("pandas"), pytest.importorskip("polars")
    expected = fitted.predict_proba(NEW)
    for frame in (pd.DataFrame(columns(20, 2)), pl.DataFrame(columns(20, 2))):
        np.testing.assert_array_equal(fitted.predict_proba(frame), expected)


def test_frames_of_pandas_go_through_cross_validation_and_a_grid() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(columns())
    scores = cross_val_score(classifier(), frame, pd.Series(Y), cv=2, params={"X_unlabeled": nu.Unlabeled(frame)})
    assert scores.shape == (2,)


def test_names_of_several_types_are_refused_as_scikit_learn_does() -> None:
    pd = pytest.importorskip("pandas")
    with pytest.raises(TypeError, match="Feature names are only supported if all input features have string names"):
        classifier().fit(pd.DataFrame({"a": Y, 1: Y}), Y)
    numbered = classifier().fit(pd.DataFrame(np.c_[Y, 1 - Y, np.arange(40)]), Y)
    assert not hasattr(numbered, "feature_names_in_")


def test_columns_that_are_missing_are_named(fitted) -> None:
    with pytest.raises(InputError, match=r"X lacks the column\(s\) 'city' of the training rows \(is it 'City'\?\)"):
        fitted.predict(NEW.rename_columns(["height", "City", "tall", "day"]))
    with pytest.warns(DataWarning, match="X has columns that the training rows had not.*'more'"):
        fitted.predict(NEW.append_column("more", pa.array(range(20))))


def test_an_array_of_numbers_is_no_table_of_text(fitted) -> None:
    with (
        pytest.warns(UserWarning, match="X does not have valid feature names"),
        pytest.raises(InputError, match=r"'day' of X holds numbers .* where dates were expected"),
    ):
        fitted.predict(np.zeros((3, 4)))


@pytest.mark.parametrize("gap", [np.nan, None])
def test_rows_without_a_label_train_as_unlabelled_rows(blobs, gap: Any) -> None:
    x, y, u = blobs
    both = np.concatenate([x, u]).astype(float)
    labels = np.array([*y, *[gap] * len(u)], float if gap is not None else object)
    expected = classifier().fit(both[:40], y, X_unlabeled=both[40:]).predict_proba(x)
    with pytest.warns(DataWarning, match="50 of 90 rows without a label in y"):
        found = classifier().fit(both, labels)
    np.testing.assert_array_equal(found.predict_proba(x), expected)
    assert found.score(both, labels) == pytest.approx(found.score(x, y))
    with pytest.warns(DataWarning, match="50 of 90 rows"):
        assert nu.fit("mlp", both, labels, method="nu", n_members=1, steps=1).training["n_unlabelled"] == 50


def test_gaps_of_an_array_train_and_predict(blobs) -> None:
    x, y, u = (np.array(part) for part in blobs)
    u[0, 1] = np.nan
    found = classifier().fit(x, y, X_unlabeled=u)
    assert found.ensemble_.row_shape == (5,)
    assert found.predict_proba(u).shape == (50, 3)
    whole = classifier().fit(x, y)
    with pytest.raises(InputError, match="X contains NaN"):
        whole.predict(u)


def test_sparse_rows_train_as_dense_ones(blobs) -> None:
    x, y, u = blobs
    expected = classifier().fit(x, y, X_unlabeled=u).predict_proba(x)
    found = classifier().fit(scipy.sparse.csr_array(x), y, X_unlabeled=scipy.sparse.csc_matrix(u))
    np.testing.assert_array_equal(found.predict_proba(scipy.sparse.csr_matrix(x)), expected)


def test_columns_are_declared_where_their_values_do_not_tell() -> None:
    codes = pa.table({"zip": [7, 8, 9, 7] * 10, "size": ["S", "M", "L", "S"] * 10})
    found = classifier(column_types={"zip": "category", "size": ["S", "M", "L"]}).fit(codes, Y)
    encoding = found.ensemble_.encoding
    assert encoding is not None
    assert encoding.outputs == ("zip is 7", "zip is 8", "zip is 9", "zip is unknown", "size")
    with pytest.warns(DataWarning) as notes:
        assert found.predict_proba(pa.table({"size": ["XL"], "zip": [1]})).shape == (1, 2)
    gaps, words = (str(note.message) for note in notes)
    assert "X has gaps (or new levels) where the training rows had none, filled with the median: 'size'" in gaps
    assert "X has words that the training rows had not, which are taken as unknown: 'zip'" in words


def test_validation_rows_are_encoded_as_the_training_rows_are() -> None:
    found = classifier(beta="auto", betas=(0.01,), max_iter=4).fit(
        TRAIN, Y, X_unlabeled=MORE, validation=(NEW.select(TURNED), Y[:20])
    )
    assert found.predict(NEW).shape == (20,)
    ensemble = nu.fit("mlp", TRAIN, Y, method="standard", n_members=1, steps=2, validation=(NEW, Y[:20]))
    assert ensemble.standardisation is not None
    assert len(ensemble.history) == 1


def test_text_in_arrays_is_sent_to_data_frames() -> None:
    with pytest.raises(InputError, match=r"x holds object values; give .* or text .* in a data frame"):
        nu.fit("mlp", np.array([["a", 1]] * 40, object), Y)
