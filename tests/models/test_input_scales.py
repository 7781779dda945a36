"""Inputs of a perceptron that are scaled, each by a factor of its own, and dropped in training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles import models, storage
from nu_ensembles.ensemble.files import FORMAT, MANIFEST
from nu_ensembles.errors import InputError
from nu_ensembles.models.input_scales import INPUT_DROPOUT, MOST_COLUMNS, PACE, inputs_of_table

KEY = jax.random.key(0)


def test_at_first_a_scaled_network_is_the_one_without_scales() -> None:
    x = jax.random.normal(KEY, (4, 5))
    scaled = models.mlp(3, input_scales=True)
    variables = scaled.init(KEY, x)
    assert variables["params"]["InputScales_0"]["scale"] == pytest.approx(np.full(5, 1 / PACE))
    plain = {"params": {name: value for name, value in variables["params"].items() if name != "InputScales_0"}}
    expected = models.mlp(3).apply(plain, x, key=None, train=False)
    np.testing.assert_allclose(scaled.apply(variables, x, key=None, train=False), expected, rtol=1e-5)


def test_a_scale_moves_its_own_column_alone_by_the_pace() -> None:
    network = models.mlp(2, hidden=(), input_scales=True)
    params = {
        "InputScales_0": {"scale": jnp.array([0.0, 1.0])},
        "Dense_0": {"kernel": jnp.eye(2), "bias": jnp.zeros(2)},
    }
    assert np.asarray(
        network.apply({"params": params}, jnp.array([[7.0, 2.0]]), key=None, train=False)
    ) == pytest.approx(np.array([[0.0, 2 * PACE]]))


def test_inputs_are_dropped_in_training_only_and_the_others_make_up_for_it() -> None:
    network = models.mlp(2, hidden=(), input_dropout=0.2)
    params = {"Dense_0": {"kernel": jnp.ones((200, 2)) / 200, "bias": jnp.zeros(2)}}
    x = jnp.ones((50, 200))
    assert np.asarray(network.apply({"params": params}, x, key=KEY, train=False)) == pytest.approx(1.0)
    trained = np.asarray(network.apply({"params": params}, x, key=KEY, train=True))[:, 0]
    kept = trained * 200 * 0.8  # how many of a row's inputs were not dropped
    assert (np.abs(kept - np.round(kept)) < 0.3).all()
    assert 0 < trained.std() < 0.1
    assert trained.mean() == pytest.approx(1.0, abs=0.02)


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        (5, {"ramps": True, "input_scales": True, "input_dropout": INPUT_DROPOUT}),
        (100, {"input_scales": True, "input_dropout": INPUT_DROPOUT}),
        (MOST_COLUMNS + 1, {}),
    ],
)
def test_how_many_columns_decide_what_becomes_of_a_standardised_table(columns: int, options: dict[str, Any]) -> None:
    assert inputs_of_table((columns,)) == options
    assert models.network_for("mlp", 3, (columns,), {}, standardised=True) is models.mlp(3, **options)
    assert models.network_for("mlp", 3, (columns,), {}) is models.mlp(3)


def test_images_are_no_table() -> None:
    assert inputs_of_table((8, 8)) == {}


def test_options_that_cannot_be_are_refused() -> None:
    with pytest.raises(InputError, match="input_scales must be True or False"):
        models.build("mlp", 3, input_scales="on")
    with pytest.raises(InputError, match="input_dropout"):
        models.build("mlp", 3, input_dropout=1.0)
    with pytest.raises(InputError, match="are of dense rows"):
        models.mlp(3, input_dropout=0.1, columns=9)


def test_it_is_saved_and_an_older_program_is_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)).astype(np.float32)
    classifier = nu.EnsembleClassifier("standard", 2, max_iter=2, random_state=0)
    trained = classifier.fit(x, (x[:, 0] > 0).astype(int)).ensemble_
    trained.save(tmp_path / "model")
    assert storage.read_sealed_json(tmp_path / "model" / MANIFEST, "it")["format"] == FORMAT == 9
    np.testing.assert_array_equal(nu.Ensemble.load(tmp_path / "model").predict_proba(x), trained.predict_proba(x))
