"""What a verdict claims on real tables holds on the rows that were neither labelled nor trained on, at every length."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer, load_iris, load_wine

import nu_ensembles as nu
from nu_ensembles.datasets.files import read_table

pytestmark = pytest.mark.slow

PENGUINS = Path(os.environ.get("NU_ENSEMBLES_DATA", "")) / "tables" / "mixed" / "penguins.csv"
NUMERIC = ("bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g")
CLAIM = re.compile(r"NLL ([\d.]+) % ± ([\d.]+) lower than an early-stopped")
LENGTHS = (20, 40, 60, 100, 200, 500)


def penguins() -> tuple[np.ndarray, np.ndarray]:
    if not PENGUINS.exists():
        pytest.skip("NU_ENSEMBLES_DATA has no tables")
    found = read_table(PENGUINS, "species")
    x = np.column_stack([np.asarray(found.X.only([name]), float) for name in NUMERIC])  # pyright: ignore
    return np.where(np.isnan(x), np.nanmean(x, axis=0), x), np.asarray(found.y)


def bundled(load: Callable[..., Any]) -> Callable[[], tuple[np.ndarray, np.ndarray]]:
    return lambda: load(return_X_y=True)


TABLES = {
    "penguins": penguins,
    "iris": bundled(load_iris),
    "wine": bundled(load_wine),
    "breast cancer": bundled(load_breast_cancer),
}


def nll(classifier: Any, x: np.ndarray, y: np.ndarray) -> float:
    codes = np.searchsorted(classifier.classes_, y)
    return float(nu.metrics.nll(classifier.predict_proba(x)[None], codes))


@pytest.mark.parametrize("max_iter", LENGTHS)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", TABLES)
def test_a_gain_is_claimed_only_where_there_is_one(name: str, seed: int, max_iter: int) -> None:
    x, y = TABLES[name]()
    order = np.random.default_rng(seed).permutation(len(x))
    x, y = x[order], y[order]
    labelled, unlabelled, rest = x[:60], x[60:240], slice(60, None)
    options: dict[str, Any] = {"max_iter": max_iter, "random_state": seed}
    auto = nu.NuEnsembleClassifier(**options).fit(labelled, y[:60], X_unlabeled=unlabelled)
    assert auto.search_ is not None
    measured = np.isfinite(auto.search_.nll)
    assert (measured[0] | ~measured).all(), "the reference is measured wherever another beta is"
    claim = CLAIM.search(auto.verdict_)
    assert (claim is not None) == (auto.beta_ > 0)
    if claim is None:
        assert "no β that was tried has a clear gain" in auto.verdict_
        return
    standard = nu.EnsembleClassifier("standard", early_stopping=True, **options)
    standard.fit(labelled, y[:60], X_unlabeled=unlabelled)
    truth = 100 * (1 - nll(auto, x[rest], y[rest]) / nll(standard, x[rest], y[rest]))
    claimed, around = map(float, claim.groups())
    assert claimed - around < truth + 5, f"{auto.verdict_} On the other rows it is {truth:.1f} %."
