"""Columns of numbers are found by their names, whoever trains, keeps or predicts: an order can never swap them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import DataWarning, InputError

pa = pytest.importorskip("pyarrow")

NAMES = ["height", "weight", "age"]
Y = np.arange(40) % 2


def frame(n_rows: int, seed: int, names: list[str] = NAMES) -> Any:
    """The first column alone knows the class; the scales differ, so a swapped column would be seen."""
    rng = np.random.default_rng(seed)
    found = {"height": rng.normal(size=n_rows) + 3 * (np.arange(n_rows) % 2), "weight": 100 * rng.normal(size=n_rows)}
    found["age"] = 40 + rng.normal(size=n_rows)
    return pa.table({name: found[name] for name in names})


def turned(table: Any) -> Any:
    return table.select(table.column_names[::-1])


X, U, NEW = frame(40, 0), frame(50, 1), frame(20, 2)
OPTIONS: dict[str, Any] = {"n_members": 2, "steps": 5, "seed": 0}


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> nu.Ensemble:
    """As a saved one comes back."""
    place = tmp_path_factory.mktemp("saved") / "model"
    nu.fit("mlp", X, Y, U, method=nu.methods.Nu(0.01), **OPTIONS).save(place)
    return nu.Ensemble.load(place)


def test_a_saved_ensemble_finds_them(ensemble: nu.Ensemble) -> None:
    assert ensemble.columns == ("height", "weight", "age")
    np.testing.assert_array_equal(ensemble.predict_proba(turned(NEW)), ensemble.predict_proba(NEW))


def test_the_file_of_a_classifier_finds_them(tmp_path: Path) -> None:
    options: dict[str, Any] = {"n_members": 2, "beta": 0.01, "max_iter": 5, "model_options": {"hidden": (8,)}}
    classifier = nu.NuEnsembleClassifier(random_state=0, **options).fit(X, Y, U)
    classifier.save(tmp_path / "model")
    loaded = nu.Ensemble.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_proba(turned(NEW)), classifier.predict_proba(NEW))


def test_unlabelled_rows_in_another_order_train_the_same_bits(ensemble: nu.Ensemble) -> None:
    again = nu.fit("mlp", X, Y, turned(U), method=nu.methods.Nu(0.01), **OPTIONS)
    np.testing.assert_array_equal(again.predict_proba(NEW), ensemble.predict_proba(NEW))


def test_a_missing_one_is_named_whoever_misses_it(ensemble: nu.Ensemble) -> None:
    with pytest.raises(InputError, match=r"^X lacks the column\(s\) 'age' of the training rows; add what is missing"):
        ensemble.predict_proba(frame(20, 2, ["height", "weight"]))
    with pytest.raises(InputError, match=r"lacks the column\(s\) 'age'"):
        nu.fit("mlp", X, Y, frame(50, 1, ["height", "weight"]), method=nu.methods.Nu(0.01), **OPTIONS)


def test_further_ones_are_ignored_with_a_note(ensemble: nu.Ensemble) -> None:
    more = NEW.append_column("shoes", pa.array(np.arange(20.0)))
    with pytest.warns(DataWarning, match="X has columns that the training rows had not, which are ignored: 'shoes'"):
        found = ensemble.predict_proba(more)
    np.testing.assert_array_equal(found, ensemble.predict_proba(NEW))
