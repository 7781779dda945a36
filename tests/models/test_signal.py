"""The network for series takes any length and number of channels, and finds a pattern wherever it stands."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles import models
from nu_ensembles.errors import InputError


@pytest.mark.parametrize("shape", [(5, 8), (5, 37), (2, 64, 3)])
def test_series_of_any_length_give_a_row_of_logits_each(shape: tuple[int, ...]) -> None:
    model = models.build("signal", 6)
    x = jax.ShapeDtypeStruct(shape, jnp.float32)
    variables = jax.eval_shape(model.init, jax.random.key(0), x)
    logits = jax.eval_shape(model.apply, variables, x)
    assert (logits.shape, logits.dtype) == ((shape[0], 6), jnp.float32)
    assert model.features is not None


def test_the_parameters_are_counted() -> None:
    variables = jax.eval_shape(models.signal(10).init, jax.random.key(0), np.ones((1, 64, 2)))
    # 5·2·32 + 32, 5·32·64 + 64, 5·64·64 + 64, 64·10 + 10
    assert sum(leaf.size for leaf in jax.tree.leaves(variables)) == 352 + 10_304 + 20_544 + 650


@pytest.mark.parametrize(
    ("options", "shape", "says"),
    [
        ({}, (2, 4), "needs a length of at least 8, not 4; use the model 'mlp', or fewer filters"),
        ({}, (2, 8, 8, 1), "takes series .* use 'lenet' for images"),
        ({"filters": ()}, None, "filters must list those of each convolution"),
        ({"filters": (0,)}, None, "filters must be a whole number of at least 1"),
    ],
)
def test_what_it_cannot_take_is_said(options: dict, shape: tuple[int, ...] | None, says: str) -> None:
    def made() -> None:
        x = jax.ShapeDtypeStruct(shape or (), jnp.float32)
        jax.eval_shape(models.signal(3, **options).init, jax.random.key(0), x)

    with pytest.raises(InputError, match=says):
        made()


def test_a_bump_is_found_wherever_it_stands_and_the_model_comes_back_from_its_folder(tmp_path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(120) % 2
    x = 0.3 * rng.normal(size=(120, 16))
    for row, label in enumerate(y):
        at = rng.integers(2, 13)
        x[row, at : at + 2] += (2, 2) if label else (2, -2)
    classifier = nu.EnsembleClassifier(
        "standard", n_members=2, model="signal", model_options={"filters": (8, 8)}, max_iter=40, random_state=0
    )
    classifier.fit(x[:80], y[:80])
    assert classifier.score(x[80:], y[80:]) > 0.9
    classifier.save(tmp_path / "model")
    found = nu.EnsembleClassifier.load(tmp_path / "model")
    np.testing.assert_array_equal(found.predict_proba(x), classifier.predict_proba(x))
