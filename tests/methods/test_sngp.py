"""SNGP: its kernel, bounds and covariance in closed form, and the limits in which it is a plain network."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.methods import SNGP
from nu_ensembles.methods.last_layer import last_layer_of
from nu_ensembles.methods.sngp import covariances
from nu_ensembles.models import logits_and_features
from nu_ensembles.models.random_features import within
from nu_ensembles.models.wrapped import unwrapped, wrapped

MODEL = nu.models.mlp(3, hidden=(16,))
RNG = np.random.default_rng(0)
KEY = jax.random.key(0)
HOW = {"n_members": 2, "steps": 60, "learning_rate": 0.01, "seed": 0}


def test_random_features_have_the_kernel_of_the_gaussian_process() -> None:
    network = wrapped(MODEL, "random_features", kernel=3, transposed=False, bias=2, n_random=4096, length_scale=1.5)
    x = jax.random.normal(KEY, (6, 4))
    variables = network.init(KEY, x)
    _, phi = logits_and_features(network, variables, x, key=None, train=False)
    _, h = logits_and_features(MODEL, MODEL.init(KEY, x), x, key=None, train=False)
    squared = np.square(np.asarray(h)[:, None] - np.asarray(h)[None]).sum(axis=-1)
    # Of 4,096 features the mean has a standard error of about 1/64.
    np.testing.assert_allclose(phi @ phi.T, np.exp(-squared / (2 * 1.5**2)), atol=0.06)


def test_power_iteration_finds_the_spectral_norm_and_bounds_it() -> None:
    kernel = jnp.asarray(RNG.normal(size=(3, 3, 4, 5)), jnp.float32)
    norm = float(np.linalg.norm(np.asarray(kernel).reshape(-1, 5), 2))
    bounded, vector = within(kernel, jnp.ones(5), 0.9)
    for _ in range(200):
        bounded, vector = within(kernel, vector, 0.9)
    assert np.linalg.norm(np.asarray(bounded).reshape(-1, 5), 2) == pytest.approx(0.9, rel=1e-3)
    np.testing.assert_allclose(within(kernel, vector, 2 * norm)[0], kernel)


@pytest.mark.parametrize("n_rows", [5, 40])
def test_the_covariance_is_the_inverse_of_prior_and_curvature(n_rows: int) -> None:
    phi, p = RNG.normal(size=(n_rows, 8)), RNG.dirichlet(np.ones(3), size=n_rows)
    weight = RNG.uniform(0.5, 1.5, size=n_rows)
    found = covariances(phi, p, weight, 0.7)
    precision = 0.7 * np.eye(8) + (phi.T * (weight * p[:, 1] * (1 - p[:, 1]))) @ phi
    np.testing.assert_allclose(found[1, :8, :8], np.linalg.inv(precision), rtol=1e-4, atol=1e-5)
    assert not found[:, 8].any()


def test_without_random_features_bounds_and_doubt_it_is_the_single_network(blobs) -> None:
    x, y, _ = blobs
    alone = nu.fit(MODEL, x, y, method="single", **HOW)
    plain = nu.fit(MODEL, x, y, method=SNGP(random_features=0, norm_bound=None, ridge=1e9), **HOW)
    np.testing.assert_allclose(plain.predict_members(x), alone.predict_members(x), rtol=1e-3, atol=1e-6)


def test_a_huge_ridge_leaves_the_mean_logits_and_a_small_one_is_less_sure(blobs) -> None:
    x, y, _ = blobs
    sure, unsure = (nu.fit(MODEL, x, y, method=SNGP(64, ridge=ridge), **HOW) for ridge in (1e9, 1.0))
    inner, wrapper = unwrapped(sure.model)
    assert wrapper is not None
    network = wrapped(inner, "random_features", **dict(wrapper.options))
    params, state = jax.tree.map(lambda leaf: leaf[0], (sure.params["params"], sure.model_state["state"]))
    logits = network.apply({**params, **state}, x, key=None, train=False)
    np.testing.assert_allclose(sure.predict_members(x)[0], jax.nn.softmax(logits), rtol=1e-3, atol=1e-6)
    assert (unsure.predict_proba(x).max(axis=1) <= sure.predict_proba(x).max(axis=1) + 1e-6).all()
    # Far from all training rows the features say nothing, and the network is less sure than near them.
    far = unsure.predict_proba(100 * x).max(axis=1).mean()
    assert far < unsure.predict_proba(x).max(axis=1).mean()


def test_its_parameters_and_a_mixture_with_random_labels_that_is_saved(blobs, tmp_path: Path) -> None:
    x, y, u = blobs
    ensemble = nu.fit(MODEL, x, y, u, SNGP(64, mixture=True, beta=0.01), **HOW)
    assert ensemble.n_members == 2
    # The last layer's 16 inputs have become 64.
    assert sum(leaf.size for leaf in jax.tree.leaves(ensemble.params)) == 2 * ((4 * 16 + 16) + (64 * 3 + 3))
    layer = last_layer_of(MODEL, (4,))
    assert (layer.kernel, layer.bias, layer.transposed) == (3, 2, False)
    ensemble.save(tmp_path / "model")
    loaded = nu.Ensemble.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_members(x), ensemble.predict_members(x))
    assert np.mean(ensemble.predict(x) == y) > 0.7


def test_what_it_cannot_do_it_says_before_it_trains(blobs) -> None:
    x, y, _ = blobs
    with pytest.raises(InputError, match="which the model does not expose"):
        nu.fit(nu.Model(MODEL.init, MODEL.apply), x, y, method="sngp", steps=1)
    with pytest.raises(InputError, match=r"covariances of 3 classes and 50,000 features are 30 GB; ask for fewer"):
        nu.fit(MODEL, x, y, method=SNGP(50_000), steps=1)
    with pytest.raises(InputError, match="ridge must be a number above 0, not 0"):
        SNGP(ridge=0)
