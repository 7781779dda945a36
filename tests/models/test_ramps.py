"""Five inputs for each column of a standardised table, and which networks get them."""

from __future__ import annotations

from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles import models, storage
from nu_ensembles.ensemble.files import MANIFEST
from nu_ensembles.errors import InputError
from nu_ensembles.models.ramps import MOST_COLUMNS, ramped


def test_a_number_comes_bounded_and_with_the_place_it_has_on_each_ramp() -> None:
    found = np.asarray(ramped(jnp.array([[0.0, 4.0]])))
    # 4 is bounded to 4 / (5/3) = 2.4; 0 lies at the end of the second ramp, 2.4 beyond all of them.
    assert found[0] == pytest.approx([0, 2.4, 0.5, 0.5, 0.5, 0.5, -0.5, 0.5, -0.5, 0.5])
    between = np.asarray(ramped(jnp.array([[0.335]])))[0]
    bounded = 0.335 / np.sqrt(1 + (0.335 / 3) ** 2)
    assert between == pytest.approx([bounded, 0.5, 0.5, bounded / 0.67 - 0.5, -0.5], abs=1e-6)


@pytest.mark.parametrize("far", [1e3, 1e19, 3e38])
def test_no_number_is_so_far_that_it_is_taken_for_a_small_one(far: float) -> None:
    found = np.asarray(ramped(jnp.array([[far, -far]])))[0]
    assert found == pytest.approx([3, -3] + [0.5, -0.5] * 4, rel=1e-4)


def test_only_the_named_perceptron_of_a_standardised_table_gets_them_and_not_against_the_options() -> None:
    plain, with_ramps = models.mlp(3), models.mlp(3, ramps=True)
    assert models.network_for("mlp", 3, (5,), {}, standardised=True) is with_ramps
    assert models.network_for("mlp", 3, (5,), {}) is plain
    assert models.network_for("mlp", 3, (5,), {"ramps": False}, standardised=True) is plain
    assert models.network_for("mlp", 3, (8, 8), {}, standardised=True) is plain
    assert models.network_for("mlp", 3, (MOST_COLUMNS + 1,), {}, standardised=True) is plain
    assert models.network_for(plain, 3, (5,), {}, standardised=True) is plain
    assert models.network_for("mlp_large", 3, (5,), {}, standardised=True) is models.mlp_large(3)


def test_ramps_are_on_or_off() -> None:
    with pytest.raises(InputError, match="ramps must be True or False, not 'on'"):
        models.build("mlp", 3, ramps="on")


def test_a_classifier_of_a_table_has_them_saves_them_and_an_older_program_is_told(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(40, 3)).astype(np.float32) * [1, 10, 100]
    y = (x[:, 0] > 0).astype(int)
    trained = nu.EnsembleClassifier("standard", 2, max_iter=2, random_state=0).fit(x, y).ensemble_
    assert trained.model is models.mlp(2, ramps=True)
    trained.save(tmp_path / "model")
    np.testing.assert_array_equal(nu.Ensemble.load(tmp_path / "model").predict_proba(x), trained.predict_proba(x))
    assert storage.read_sealed_json(tmp_path / "model" / MANIFEST, "it")["format"] == 7
    without = nu.EnsembleClassifier("standard", 2, model_options={"ramps": False}, max_iter=2, random_state=0)
    without.fit(x, y).ensemble_.save(tmp_path / "without")
    manifest = storage.read_sealed_json(tmp_path / "without" / MANIFEST, "it")
    assert (manifest["format"], "ramps" in manifest["model"]["options"]) == (1, False)
    far = np.array([[0.0, 0.0, 1e30]])
    assert np.isfinite(trained.predict_proba(far)).all()
