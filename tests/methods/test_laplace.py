"""Laplace's approximation on a last layer that is known in closed form, and as networks that are saved and loaded."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Laplace
from nu_ensembles.methods.laplace_posterior import LastLayerPosterior
from nu_ensembles.methods.last_layer import find_last_layer
from nu_ensembles.models.wrapped import around, wrapped

N, F, C = 30, 3, 3
RNG = np.random.default_rng(0)
FEATURES = RNG.normal(size=(N, F)).astype(np.float32)
LAYER = RNG.normal(size=(C, F + 1))
LOGITS = (FEATURES @ LAYER[:, :-1].T + LAYER[:, -1]).astype(np.float32)
LABELS = RNG.integers(C, size=N)
WEIGHT = RNG.uniform(0.5, 1.5, size=N)


def posterior(structure: Any, n_rows: int = N, has_bias: bool = True) -> LastLayerPosterior:
    rows = FEATURES[:n_rows], LOGITS[:n_rows], LABELS[:n_rows], WEIGHT[:n_rows]
    return LastLayerPosterior(LAYER, *rows, structure, has_bias)


def hessian() -> np.ndarray:
    """Of the negative log-likelihood in the last layer, `[C (F + 1), C (F + 1)]`, by differentiating it twice."""
    inputs = jnp.concatenate([FEATURES, jnp.ones((N, 1))], axis=1)

    def nll(layer: jax.Array) -> jax.Array:
        log_p = jax.nn.log_softmax(inputs @ layer.reshape(C, F + 1).T)
        return -jnp.asarray(WEIGHT) @ log_p[jnp.arange(N), LABELS]

    return np.asarray(jax.jit(jax.hessian(nll))(jnp.asarray(LAYER.ravel())))


def test_the_full_curvature_is_the_hessian_of_logistic_regression() -> None:
    found = posterior("full")
    assert found.full is not None
    values, vectors = found.full
    np.testing.assert_allclose(vectors * values @ vectors.T, hessian(), atol=1e-4)


def test_the_evidence_is_laplaces_formula() -> None:
    found, delta = posterior("full"), 0.3
    log_p = LOGITS - np.log(np.exp(LOGITS.astype(np.float64)).sum(axis=1, keepdims=True))
    log_joint = WEIGHT @ log_p[np.arange(N), LABELS] - delta / 2 * np.sum(LAYER**2)
    _, log_determinant = np.linalg.slogdet(hessian().astype(np.float64) + delta * np.eye(12))
    # The constants of prior and integral, (2 pi)^(P/2), cancel.
    expected = log_joint + 12 / 2 * math.log(delta) - log_determinant / 2
    assert found.log_evidence(delta) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("structure", ["full", "kronecker"])
def test_the_prior_has_the_largest_evidence(structure: str) -> None:
    found = posterior(structure)
    best = found.best_prior_precision()
    assert found.log_evidence(best) >= max(found.log_evidence(best * factor) for factor in (0.5, 0.99, 1.01, 2, 100))


def test_one_row_has_one_kronecker_product() -> None:
    full, kronecker = posterior("full", 1, has_bias=False), posterior("kronecker", 1, has_bias=False)
    np.testing.assert_allclose(np.sort(kronecker.eigenvalues), np.sort(full.eigenvalues), atol=1e-6)
    np.testing.assert_allclose(kronecker.class_covariances(), full.class_covariances(), atol=1e-6)


@pytest.mark.parametrize("structure", ["full", "kronecker"])
def test_draws_have_the_covariance_that_is_told(structure: str) -> None:
    found = posterior(structure)
    found.prior_precision = 2.0
    drawn = np.stack([found.deviations(RNG.standard_normal(LAYER.shape)) for _ in range(5000)])
    for c, told in enumerate(found.class_covariances()):
        np.testing.assert_allclose(np.cov(drawn[:, c].T, bias=True), told, atol=0.03)
    if structure == "full":
        inverse = np.linalg.inv(hessian() + 2 * np.eye(12)).reshape(C, F + 1, C, F + 1)
        np.testing.assert_allclose(found.class_covariances()[1], inverse[1, :, 1], atol=1e-4)


def test_the_probit_predictive_is_close_to_the_integral() -> None:
    """Two classes, where the difference of the logits is normal: by quadrature, MacKay's formula is within 0.02."""
    model = nu.models.mlp(2, hidden=())
    kernel = np.array([[1.0, -1.0]], np.float32)
    params = {"params": {"Dense_0": {"kernel": kernel, "bias": np.zeros(2, np.float32)}}}
    # Only the first class's weight is uncertain; the second logit is too, as -1 times it, in the integral below.
    covariance = np.zeros((2, 2, 2), np.float32)
    covariance[:, 0, 0] = 0.5
    variables = dict(zip(("params", "state"), ({}, {}), strict=True))
    inner, state = around(params, {}, covariance=covariance)
    variables = {**inner, **state}
    x = np.array([[0.5], [1.0], [3.0]], np.float32)
    logits = wrapped(model, "probit").apply(variables, jnp.asarray(x), key=None, train=False)
    variance = 0.5 * x[:, 0] ** 2
    np.testing.assert_allclose(logits[:, 0], x[:, 0] / np.sqrt(1 + np.pi / 8 * variance), rtol=1e-5)


def test_the_last_layer_is_found_by_what_it_does() -> None:
    kernel, bias = LAYER[:, :-1].T.astype(np.float32), LAYER[:, -1].astype(np.float32)
    params = {"a": np.zeros((C,), np.float32), "b": kernel, "c": bias, "d": np.eye(F, dtype=np.float32)}
    found = find_last_layer(params, FEATURES, LOGITS)
    assert (found.kernel, found.bias, found.transposed) == (1, 2, False)
    stacked = jax.tree.map(lambda leaf: leaf[None], params)
    np.testing.assert_allclose(found.of(stacked)[0], LAYER, rtol=1e-6)
    replaced = found.replaced(stacked, 2 * LAYER[None])
    np.testing.assert_allclose(replaced["b"][0], 2 * kernel, rtol=1e-6)
    np.testing.assert_allclose(replaced["d"][0], np.eye(F))
    turned = find_last_layer({"kernel": kernel.T.copy(), "bias": bias}, FEATURES, LOGITS)
    assert turned.transposed


MODEL = nu.models.mlp(3, hidden=(16,))
KINDS = {
    "probit": (Laplace(), 1),
    "full, drawn": (Laplace("full", "monte_carlo"), 3),
    "mixture": (Laplace(mixture=True), 3),
    "mixture with random labels, drawn": (Laplace(predictive="monte_carlo", mixture=True, n_samples=2, beta=0.01), 6),
}


@pytest.mark.parametrize("kind", KINDS)
def test_it_trains_saves_and_loads_and_is_less_sure_than_the_network(blobs, tmp_path: Path, kind: str) -> None:
    x, y, u = blobs
    method, n_members = KINDS[kind]
    options = {"n_members": 3, "steps": 60, "learning_rate": 0.01}
    ensemble = nu.fit(MODEL, x, y, u, method, **options)
    assert ensemble.n_members == n_members
    ensemble.save(tmp_path / "model")
    loaded = nu.Ensemble.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_members(x), ensemble.predict_members(x))
    assert "members of mlp" in repr(loaded)
    notes = ensemble.training["procedure"]
    assert len(notes["prior_precisions"]) == (3 if method.mixture else 1)
    if kind == "probit":
        alone = nu.fit(MODEL, x, y, u, "single", **options)
        np.testing.assert_array_equal(ensemble.predict(x), alone.predict(x))
        assert (ensemble.predict_proba(x).max(axis=1) <= alone.predict_proba(x).max(axis=1)).all()


def test_a_network_of_ones_own_is_given_again_when_it_is_loaded(blobs, tmp_path: Path) -> None:
    x, y, _ = blobs
    mine = nu.Model(MODEL.init, MODEL.apply, features=MODEL.features)
    ensemble = nu.fit(mine, x, y, method="laplace", n_members=2, steps=20, learning_rate=0.01)
    ensemble.save(tmp_path / "model")
    with pytest.raises(InputError, match="holds a network of your own; pass it"):
        nu.Ensemble.load(tmp_path / "model")
    loaded = nu.Ensemble.load(tmp_path / "model", model=mine)
    np.testing.assert_array_equal(loaded.predict_members(x), ensemble.predict_members(x))


def test_a_network_without_features_or_without_a_dense_last_layer_is_refused_before_it_trains(blobs) -> None:
    x, y, _ = blobs
    with pytest.raises(InputError, match="which the model does not expose"):
        nu.fit(nu.Model(MODEL.init, MODEL.apply), x, y, method="laplace", steps=1)

    def squared(variables: Any, x: Any, *, key: Any, train: bool) -> Any:
        return MODEL.apply(variables, x, key=key, train=train) ** 2

    with pytest.raises(InputError, match="no weights of this network turn its features into its logits"):
        nu.fit(nu.Model(MODEL.init, squared, features=MODEL.features), x, y, method="laplace", steps=1)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"structure": "ful"}, r"Unknown structure of the curvature 'ful'\. Did you mean 'full'"),
        ({"predictive": "probbit"}, r"Unknown predictive of laplace 'probbit'\. Did you mean 'probit'"),
        ({"prior_precision": 0}, "prior_precision must be a number above 0, not 0"),
        ({"n_samples": 3}, "The probit predictive draws nothing; leave n_samples out"),
        ({"beta": -1}, "beta must be a number of at least 0, not -1"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Laplace(**options)


def test_a_full_curvature_that_would_not_fit_is_refused(blobs) -> None:
    x, y, _ = blobs
    wide = nu.models.mlp(3, hidden=(5000,))
    with pytest.raises(InputError, match=r"with 15,003 weights is a matrix of 2 GB; use structure='kronecker'"):
        nu.fit(wide, x, y, method=Laplace("full"), steps=1)
