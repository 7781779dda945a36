"""Ensembles keep company with the tools that keep and move models: pickle, copy, joblib, skops."""

# pyright: reportMissingImports=false
from __future__ import annotations

import copy
import io
import pickle
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
