"""Keras networks on the JAX backend as models: starts, masks, state, training."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.models import Model, from_keras

os.environ.setdefault("KERAS_BACKEND", "jax")
keras = pytest.importorskip("keras")
layers = keras.layers
pytestmark = pytest.mark.skipif(keras.backend.backend() != "jax", reason="Keras runs on another backend")
KEY = jax.random.key(0)


def net() -> Any:
    return keras.Sequential(
        [
            keras.Input((4,)),
            layers.Dense(8, "relu"),
            layers.BatchNormalization(),
            layers.Dropout(0.5),
            layers.Dropout(0.5),
            layers.Dense(3),
        ]
    )


@pytest.fixture(scope="module")
def model() -> Model:
    return from_keras(net)


def test_variables_are_named_by_number_and_what_keras_does_not_train_is_state(model: Model) -> None:
    shapes = jax.tree.map(jnp.shape, model.init(KEY, jnp.ones((2, 4))))
    params = {"0.kernel": (4, 8), "1.bias": (8,), "2.gamma": (8,), "3.beta": (8,), "4.kernel": (8, 3), "5.bias": (3,)}
    assert shapes == {"params": params, "state": {"6.moving_mean": (8,), "7.moving_variance": (8,)}}


def test_members_differ_and_the_same_key_draws_the_same_weights(model: Model, blobs: Any) -> None:
    keys = jax.random.split(KEY, 2)
    first, again = (jax.jit(jax.vmap(lambda key: model.init(key, jnp.ones((2, 4)))))(keys)["params"] for _ in "ab")
    jax.tree.map(np.testing.assert_array_equal, first, again)
    assert not np.array_equal(first["0.kernel"][0], first["0.kernel"][1])
    assert not np.array_equal(first["0.kernel"][0].ravel()[:12], first["4.kernel"][0].ravel()[:12])
    limit = (6 / (4 + 8)) ** 0.5  # Glorot's uniform
    assert 0.8 * limit < float(jnp.abs(first["0.kernel"]).max()) <= limit
    np.testing.assert_array_equal(first["2.gamma"], np.ones((2, 8)))


def test_it_computes_what_keras_computes(model: Model, blobs: Any) -> None:
    x = blobs[0]
    variables = model.init(KEY, x)
    network = net()
    network.set_weights(
        [
            *(variables["params"][name] for name in ("0.kernel", "1.bias", "2.gamma", "3.beta")),
            *variables["state"].values(),
            variables["params"]["4.kernel"],
            variables["params"]["5.bias"],
        ]
    )
    np.testing.assert_allclose(model.apply(variables, x), network(x), rtol=1e-5, atol=1e-6)
    _, state = model.apply(variables, x, key=KEY, train=True)
    network(x, training=True)
    np.testing.assert_allclose(state["state"]["6.moving_mean"], network.layers[1].moving_mean, rtol=1e-5, atol=1e-6)


def test_masks_follow_the_key_and_layers_have_masks_of_their_own(model: Model, blobs: Any) -> None:
    x = jnp.asarray(blobs[0])
    variables = model.init(KEY, x)
    first, again, other = (model.apply(variables, x, key=jax.random.key(seed), train=True)[0] for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    with pytest.raises(InputError, match="A Keras network with dropout needs a key in training"):
        model.apply(variables, x, key=None, train=True)

    twice = from_keras(lambda: keras.Sequential([keras.Input((400,)), layers.Dropout(0.5), layers.Dropout(0.5)]))
    kept = twice.apply({"params": {}}, jnp.ones((1, 400)), key=KEY, train=True)
    assert 0.15 < float(jnp.mean(kept > 0)) < 0.35  # a quarter: two masks, not one twice


def test_an_ensemble_trains_is_saved_and_loaded(model: Model, blobs: Any, tmp_path: Path) -> None:
    x, y, u = blobs
    options = {"method": nu.methods.Nu(beta=0.01), "n_members": 2, "epochs": 20, "learning_rate": 0.01}
    ensemble = nu.fit(model, x, y, u, **options)
    assert np.mean(ensemble.predict(x) == y) > 0.6
    again = nu.fit(model, x, y, u, **options)
    np.testing.assert_array_equal(again.predict_members(x), ensemble.predict_members(x))
    ensemble.save(tmp_path / "saved")
    loaded = nu.Ensemble.load(tmp_path / "saved", model=pickle.loads(pickle.dumps(model)))
    np.testing.assert_array_equal(loaded.predict_members(x), ensemble.predict_members(x))


def test_weights_that_were_loaded_are_where_all_members_start() -> None:
    trunk = np.random.default_rng(0).normal(size=(4, 8)).astype(np.float32)

    def fine_tuned() -> Any:
        network = net()
        network.layers[0].kernel.assign(trunk)
        return network

    drawn = jax.vmap(lambda key: from_keras(fine_tuned).init(key, None))(jax.random.split(KEY, 2))["params"]
    np.testing.assert_array_equal(drawn["0.kernel"], np.stack([trunk, trunk]))
    assert not np.array_equal(drawn["4.kernel"][0], drawn["4.kernel"][1])


@pytest.mark.parametrize(
    ("factory", "message"),
    [
        (7, "from_keras takes a factory"),
        (lambda: keras.Sequential([layers.Dense(3)]), "returns a built keras.Model"),
        (lambda: keras.Sequential([keras.Input((4,)), layers.Dense(3, "softmax")]), "must return logits"),
    ],
)
def test_what_cannot_be_a_model_is_refused(factory: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        from_keras(factory)


def test_chance_that_is_not_an_initialisers_is_refused() -> None:
    def by_hand() -> Any:
        network = net()
        network.layers[0].kernel.assign(np.random.normal(size=(4, 8)))  # noqa: NPY002
        return network

    with pytest.raises(InputError, match="hangs on chance that cannot be taken from a key"):
        from_keras(by_hand)
