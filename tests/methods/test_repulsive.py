"""Repulsive ensembles and feature-space flow: the loss is the fit, and its gradient the flow."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Batch, FeatureFlow, RepulsiveEnsemble, Standard
from nu_ensembles.methods.feature_flow import prior_score, subspace
from nu_ensembles.methods.losses import cross_entropy
from nu_ensembles.methods.particles import density_score, direction

MODEL = nu.models.mlp(3, hidden=(16,))
K, B, C = 4, 3, 2
X = jax.random.normal(jax.random.key(1), (K, B, C))
Y = jnp.tile(jnp.array([0, 1, 1]), (K, 1))
BATCH = Batch(X, Y, jnp.ones((K, B)), n_rows=jnp.full(K, 50), key=jax.random.split(jax.random.key(2), K))
SCALES = {"scale": jax.random.normal(jax.random.key(3), (K, C)), "shift": jax.random.normal(jax.random.key(4), (K, C))}


class Affine:
    """A network of 2 C weights, which are the particles: logits = scale * x + shift; its features are the logits."""

    def __init__(self, params: Any) -> None:
        self.params = params

    def __call__(self, x: jax.Array) -> tuple[jax.Array, ...]:
        return (self.params["scale"][:, None] * x + self.params["shift"][:, None],)

    def at(self, params: Any) -> Affine:
        return Affine(params)

    def with_features(self, x: jax.Array) -> tuple[jax.Array, jax.Array]:
        (logits,) = self(x)
        return logits, logits


def fit(params: Any, batch: Batch) -> jax.Array:
    (logits,) = Affine(params)(batch.x)
    return jnp.sum(cross_entropy(logits, batch.y, batch.weight))


@partial(jax.jit, static_argnums=2)
def told(params: Any, batch: Batch, method: Any) -> jax.Array:
    return method.loss(Affine(params), batch)


slopes = jax.jit(jax.grad(told), static_argnums=2)


def rows(params: Any) -> jax.Array:
    return jnp.concatenate([params["scale"], params["shift"]], axis=1)


FLOWS: list[Any] = [("wgd", "kde"), ("wgd", "ssge"), ("svgd", "kde")]
SPACES: list[Any] = ["weight", "function"]
ALL = [RepulsiveEnsemble(space, *flow) for space in SPACES for flow in FLOWS]


@pytest.mark.parametrize("method", [*ALL, FeatureFlow()])
def test_the_loss_that_is_told_is_the_fit(method: Any) -> None:
    same_rows = isinstance(method, FeatureFlow) or method.space == "function"
    batch = BATCH.on_the_same_rows() if same_rows else BATCH
    assert told(SCALES, BATCH, method) == pytest.approx(float(fit(SCALES, batch)), rel=1e-6)


@pytest.mark.parametrize("method", ALL[:3])
def test_in_weight_space_its_gradient_is_the_flow_of_the_weights(method: RepulsiveEnsemble) -> None:
    gradient = rows(slopes(SCALES, BATCH, method))
    scores = -rows(jax.grad(lambda params: fit(params, BATCH))(SCALES))
    expected = -direction(rows(SCALES), scores, method.form, method.estimator, 1 / 50)
    np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", ALL[3:])
def test_in_function_space_it_is_the_flow_of_the_logits_on_shared_rows(method: RepulsiveEnsemble) -> None:
    batch = BATCH.on_the_same_rows()
    (logits,) = Affine(SCALES)(batch.x)
    scores = -jax.grad(lambda f: jnp.sum(cross_entropy(f, batch.y, batch.weight)))(logits)
    flat, flat_scores = logits.reshape(K, -1), scores.reshape(K, -1)
    moved = direction(flat, flat_scores, method.form, method.estimator, 1 / 50).reshape(logits.shape)
    # By the chain rule through the network's weights.
    _, pull_back = jax.vjp(lambda params: Affine(params)(batch.x)[0], SCALES)
    gradient = slopes(SCALES, BATCH, method)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), gradient, pull_back(-moved)[0])


def test_features_of_a_linear_network_follow_the_flow_of_each_row() -> None:
    # Two features, so that nothing is projected away; the last layer is the identity.
    batch = BATCH.on_the_same_rows()
    (h,) = Affine(SCALES)(batch.x)
    scores = -jax.grad(lambda f: jnp.sum(cross_entropy(f, batch.y, batch.weight)))(h)
    moved = np.array(scores)
    for row in range(B):
        z = h[:, row]
        moved[:, row] += np.asarray(-z / (1 + 0.5 * z**2) - density_score(z, "kde")) / B
    _, pull_back = jax.vjp(lambda params: Affine(params)(batch.x)[0], SCALES)
    gradient = slopes(SCALES, BATCH, FeatureFlow(prior_precision=0.5))
    expected = pull_back(-jnp.asarray(moved))[0]
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), gradient, expected)


def test_the_subspace_is_orthonormal_and_no_larger_than_the_features() -> None:
    basis = subspace(jax.random.key(0), 8, 5)
    np.testing.assert_allclose(basis.T @ basis, np.eye(5), atol=1e-5)
    np.testing.assert_array_equal(subspace(jax.random.key(0), 3, 5), np.eye(3))


def test_priors_of_features() -> None:
    h = jnp.array([0.0, 1.0, 3.0])
    np.testing.assert_allclose(prior_score(h, "cauchy", 1.0), [0, -1, -0.6])
    np.testing.assert_allclose(prior_score(h, "cauchy", 0.005), [0, -0.01 / 1.005, -0.03 / 1.045], rtol=1e-6)
    np.testing.assert_allclose(prior_score(h, "normal", 2.0), [0, -2, -6])
    np.testing.assert_allclose(prior_score(h, "flat", 1.0), [0, 0, 0])


def test_the_prior_is_of_all_features_and_the_repulsion_of_their_projection_alone() -> None:
    def gradient(**options: Any) -> np.ndarray:
        return np.asarray(rows(slopes(SCALES, BATCH, FeatureFlow(**options))))

    without = gradient(repulsion=0, prior="flat")
    fit_alone = rows(jax.grad(lambda params: fit(params, BATCH.on_the_same_rows()))(SCALES))
    np.testing.assert_allclose(without, fit_alone, rtol=1e-5, atol=1e-6)
    # One dimension of two: what the prior does to the features does not depend on it, what repels them does.
    prior = [gradient(repulsion=0, n_dimensions=n, prior_precision=1.0) for n in (1, 2)]
    np.testing.assert_allclose(*prior, rtol=1e-5, atol=1e-6)
    assert np.abs(prior[0] - without).max() > 0.01
    repelled = [gradient(prior="flat", n_dimensions=n) for n in (1, 2)]
    assert np.abs(repelled[0] - repelled[1]).max() > 0.01


@pytest.mark.parametrize("method", [*ALL, FeatureFlow()])
def test_the_order_of_members_does_not_matter(method: Any) -> None:
    order = np.array([2, 0, 3, 1])

    def gradient(params: Any, batch: Batch) -> jax.Array:
        return rows(slopes(params, batch, method))

    batch = BATCH.on_the_same_rows()._replace(key=jnp.broadcast_to(BATCH.key[:1], (K,)))  # pyright: ignore[reportOptionalSubscript]
    turned = gradient(jax.tree.map(lambda leaf: leaf[order], SCALES), batch)
    np.testing.assert_allclose(turned, gradient(SCALES, batch)[order], rtol=1e-3, atol=1e-5)


def test_without_repulsion_it_is_the_standard_ensemble() -> None:
    assert RepulsiveEnsemble(repulsion=0).effective() == Standard()
    assert RepulsiveEnsemble(form="svgd", repulsion=0).effective() != Standard()


@pytest.mark.parametrize("method", [RepulsiveEnsemble(), RepulsiveEnsemble("weight", "svgd"), FeatureFlow()])
def test_it_trains_saves_and_loads(blobs, tmp_path, method: Any) -> None:
    x, y, u = blobs
    ensemble = nu.fit(MODEL, x, y, u, method, 3, steps=30, learning_rate=0.01)
    assert np.mean(ensemble.predict(x) == y) > 0.6
    ensemble.save(tmp_path / "model")
    loaded = nu.Ensemble.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict_members(x), ensemble.predict_members(x))


@pytest.mark.slow
def test_early_stopping_and_calibration(blobs) -> None:
    x, y, _ = blobs
    options = {"space": "weight", "estimator": "sge"}
    classifier = nu.EnsembleClassifier(
        "repulsive",
        2,
        MODEL,
        method_options=options,
        early_stopping=True,
        temperature=True,
        max_iter=10,
        cv=2,
        random_state=0,
    )
    assert classifier.fit(x, y).predict_proba(x).shape == (40, 3)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"space": "wieght"}, r"Unknown space of a repulsive ensemble 'wieght'\. Did you mean 'weight'"),
        ({"form": "sgvd"}, r"Unknown form of a repulsive ensemble 'sgvd'\. Did you mean 'svgd'"),
        ({"estimator": "kd"}, r"Unknown estimator of a repulsive ensemble 'kd'\. Did you mean 'kde'"),
        ({"repulsion": -1}, "repulsion must be a number of at least 0, not -1; 1 is the posterior"),
    ],
)
def test_options_that_make_no_sense_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        RepulsiveEnsemble(**arguments)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"prior": "cauch"}, r"Unknown prior of features 'cauch'\. Did you mean 'cauchy'"),
        ({"prior_precision": 0}, "prior_precision must be a number above 0, not 0"),
        ({"n_dimensions": 0}, "n_dimensions must be a whole number of at least 1, not 0"),
        ({"repulsion": float("nan")}, "repulsion must be a number of at least 0, not nan"),
    ],
)
def test_options_of_the_feature_flow_that_make_no_sense_are_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        FeatureFlow(**arguments)


def test_a_network_that_does_not_expose_its_features_is_refused(blobs) -> None:
    x, y, _ = blobs
    hidden = nu.models.mlp(3, hidden=(8,))
    opaque = nu.Model(hidden.init, hidden.apply)
    with pytest.raises(
        InputError, match="looks at the features before the last layer, which the model does not expose"
    ):
        nu.fit(opaque, x, y, method=FeatureFlow(), n_members=2, steps=1)
