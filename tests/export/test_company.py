"""Ensembles keep company with the tools that keep and move models: pickle, copy, joblib, skops."""

# pyright: reportMissingImports=false
from __future__ import annotations

import copy
import dataclasses
import io
import json
import pickle
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from mixed_table import mixed_table

import nu_ensembles as nu


@pytest.fixture
def rows() -> np.ndarray:
    return np.random.default_rng(1).normal(20.0, 3.0, size=(7, 5)).astype(np.float32)


def test_pickle_copy_and_joblib_give_back_the_same_probabilities(
    of_numbers: nu.Ensemble, of_a_table: nu.Ensemble, rows: np.ndarray, tmp_path: Path
) -> None:
    expected = of_numbers.predict_proba(rows)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(of_numbers)).predict_proba(rows), expected)
    np.testing.assert_array_equal(copy.deepcopy(of_numbers).predict_proba(rows), expected)
    joblib.dump(of_a_table, tmp_path / "model.joblib")
    table = mixed_table(9)
    np.testing.assert_array_equal(
        joblib.load(tmp_path / "model.joblib").predict_proba(table), of_a_table.predict_proba(table)
    )


def test_a_state_holds_nothing_but_bytes(of_numbers: nu.Ensemble) -> None:
    state: Any = of_numbers.__getstate__()
    assert {name: type(content) for name, content in state["files"].items()} == {
        "manifest.json": bytes,
        "weights.safetensors": bytes,
    }


def test_a_state_that_was_altered_is_refused(of_numbers: nu.Ensemble) -> None:
    state: Any = of_numbers.__getstate__()
    weights = bytearray(state["files"]["weights.safetensors"])
    weights[-1] ^= 1
    state["files"]["weights.safetensors"] = bytes(weights)
    with pytest.raises(nu.DamagedFileError):
        nu.Ensemble.__new__(nu.Ensemble).__setstate__(state)


def test_skops_dumps_and_loads(of_numbers: nu.Ensemble, rows: np.ndarray) -> None:
    skops: Any = pytest.importorskip("skops.io", reason="needs skops")
    dumped = skops.dumps(of_numbers)
    trusted = skops.get_untrusted_types(data=dumped)
    assert trusted == ["nu_ensembles.ensemble.trained.Ensemble"]
    found = skops.load(io.BytesIO(dumped), trusted=trusted)
    np.testing.assert_array_equal(found.predict_proba(rows), of_numbers.predict_proba(rows))


def test_a_folder_for_a_hub_has_a_page_of_what_the_manifest_knows(of_a_table: nu.Ensemble, tmp_path: Path) -> None:
    told = dataclasses.replace(of_a_table, training={"method": "nu", "verdict": "β = 0.01, 60 steps: as it was found."})
    told.save(tmp_path / "hub", model_card=True)
    page = (tmp_path / "hub" / "README.md").read_text(encoding="utf-8")
    assert page.startswith("---\nlibrary_name: nu-ensembles\n")
    assert "β = 0.01, 60 steps: as it was found." in page
    assert "| city | category" in page
    table = mixed_table(5)
    np.testing.assert_array_equal(
        nu.Ensemble.load(tmp_path / "hub").predict_proba(table), of_a_table.predict_proba(table)
    )


@pytest.mark.slow
def test_mlflow_loads_what_was_saved_for_it(of_a_table: nu.Ensemble, tmp_path: Path) -> None:
    pytest.importorskip("mlflow", reason="needs the extra mlflow")
    code = (
        "import sys, mlflow, pandas; frame = pandas.read_json(sys.argv[2], orient='records');"
        "print(mlflow.pyfunc.load_model(sys.argv[1]).predict(frame).to_json(orient='values'))"
    )
    from nu_ensembles.serving import mlflow_model

    rows = [{"age": 31.0, "city": "Ulm", "size": "M", "bought": "2021-01-31", "year": 2020}]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        mlflow_model.save_model(of_a_table, tmp_path / "model")
    command = [sys.executable, "-W", "ignore", "-c", code, str(tmp_path / "model"), str(tmp_path / "rows.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    import pandas

    frame = pandas.DataFrame(rows)
    np.testing.assert_allclose(json.loads(done.stdout), of_a_table.predict_proba(frame), atol=1e-6)


def test_saving_for_mlflow_asks_for_the_ensemble_of_a_classifier(tmp_path: Path) -> None:
    from nu_ensembles.serving import mlflow_model

    classifier: Any = nu.EnsembleClassifier()
    with pytest.raises(nu.InputError, match=r"takes an Ensemble \(of a classifier, clf.ensemble_\)"):
        mlflow_model.save_model(classifier, tmp_path / "model")


@pytest.mark.slow
def test_mlflow_keeps_a_classifier_in_its_default_format(tmp_path: Path) -> None:
    sklearn_flavour: Any = pytest.importorskip("mlflow.sklearn", reason="needs the extra mlflow")
    from nu_ensembles.serving import mlflow_model

    rng = np.random.default_rng(0)
    x, u = rng.normal(size=(60, 4)), rng.normal(size=(80, 4))
    y = (x[:, 0] > 0).astype(int)
    clf = nu.NuEnsembleClassifier(2, cv=2, betas=[0.0, 0.01], max_iter=4, random_state=0).fit(x, y, X_unlabeled=u)
    blend = nu.Blend([nu.EnsembleClassifier(n_members=2, max_iter=4, random_state=0), nu.TemperedForest()]).fit(x, y)
    for name, each in (("nu", clf), ("blend", blend)):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trusted = mlflow_model.trusted_types(each)
            sklearn_flavour.save_model(each, tmp_path / name, skops_trusted_types=trusted)
            found = sklearn_flavour.load_model(str(tmp_path / name))
        assert "serialization_format: skops" in (tmp_path / name / "MLmodel").read_text()
        np.testing.assert_array_equal(found.predict_proba(x), each.predict_proba(x))
