"""DICE: pairs within a class, the estimate and the discriminators' loss in numbers, and who feels which term."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from jax import Array

from nu_ensembles import methods
from nu_ensembles.errors import InputError
from nu_ensembles.methods import Batch, Dice, Standard
from nu_ensembles.methods.dice import (
    blurred,
    discriminator_losses,
    log_ratios,
    over_others,
    partners,
    redundancies,
    spectrally_normalised,
    with_bounded_slopes,
)
from nu_ensembles.methods.losses import cross_entropy

LOG3 = float(np.log(3))
HALVES = jnp.array([[0.5], [0.5]])


def test_partners_are_the_next_points_of_the_class_round_the_batch() -> None:
    rows, weights = partners(jnp.array([0, 1, 0, 0, 2]), n_partners=2)
    assert [rows[0].tolist(), rows[2].tolist(), rows[3].tolist()] == [[2, 3], [3, 0], [0, 2]]
    np.testing.assert_allclose(weights, np.array([1, 0, 1, 1, 0])[:, None] * np.full((5, 2), 1 / 6), rtol=1e-6)


def test_a_point_with_few_partners_counts_as_much_as_one_with_many() -> None:
    rows, weights = partners(jnp.array([0, 0, 1, 1, 1]), n_partners=4)
    assert rows[0, 0] == 1
    np.testing.assert_allclose(weights[0], [1 / 5, 0, 0, 0], rtol=1e-6)
    np.testing.assert_allclose(weights[2], [1 / 10, 1 / 10, 0, 0], rtol=1e-6)


@given(st.lists(st.integers(0, 3), min_size=7, max_size=7))
@settings(max_examples=30, deadline=None)
def test_a_partner_is_another_point_of_the_same_class(labels: list[int]) -> None:
    rows, weights = (np.asarray(part) for part in jax.jit(partners)(jnp.array(labels)))
    for row, (others, shares) in enumerate(zip(rows, weights, strict=True)):
        chosen = others[shares > 0].tolist()
        assert len(set(chosen)) == len(chosen) == min(4, labels.count(labels[row]) - 1)
        assert all(other != row and labels[other] == labels[row] for other in chosen)
    assert np.isclose(weights.sum(), float(len(set(labels)) < len(labels)))


def test_the_redundancy_is_the_donsker_varadhan_estimate() -> None:
    joint, product = jnp.array([[[2.0, 1.0]]]), jnp.array([[[[0.0], [LOG3]]]])
    np.testing.assert_allclose(redundancies(joint, product, HALVES), [[1.5 - np.log(2)]], rtol=1e-6)


def test_a_negative_estimate_counts_as_none() -> None:
    assert redundancies(jnp.array([[[-1.0, -1.0]]]), jnp.zeros((1, 1, 2, 1)), HALVES).tolist() == [[0.0]]


def test_a_batch_without_pairs_has_no_redundancy_and_finite_gradients() -> None:
    joint, product, none = jnp.ones((2, 2, 2)), jnp.ones((2, 2, 2, 1)), jnp.zeros((2, 1))
    value, gradient = jax.value_and_grad(lambda t: redundancies(t, product, none).sum())(joint)
    assert value == 0
    assert (gradient == 0).all()


@given(arrays(np.float32, (2, 2, 2), elements=st.floats(-3, 3, width=32)))
@settings(max_examples=30, deadline=None)
def test_no_redundancy_exceeds_twice_the_bound(joint: np.ndarray) -> None:
    estimate = jax.jit(redundancies)(jnp.asarray(joint), -3.0 * np.ones((2, 2, 2, 1)), HALVES)
    assert ((estimate >= 0) & (estimate <= 6.0 + 1e-5)).all()


def test_the_discriminators_loss_is_the_logistic_one() -> None:
    # s(log 3) = 3/4: -log(3/4) and -log(1/2) on the joint pairs, the same on the others.
    joint, product = jnp.array([[[LOG3, 0.0]]]), jnp.array([[[[0.0], [-LOG3]]]])
    np.testing.assert_allclose(discriminator_losses(joint, product, HALVES), [[np.log(4 / 3) + np.log(2)]], rtol=1e-6)


def test_means_go_over_the_other_members() -> None:
    pairs = jnp.array([[100.0, 1.0, 3.0], [5.0, 100.0, 7.0], [9.0, 11.0, 100.0]])
    assert over_others(pairs).tolist() == [2.0, 6.0, 10.0]
    assert over_others(jnp.array([[100.0]])).tolist() == [0.0]


@given(arrays(np.float32, (5, 3), elements=st.floats(-100, 100, width=32).filter(lambda v: abs(v) > 1e-3)))
@settings(max_examples=30, deadline=None)
def test_a_normalised_layer_never_stretches_and_hardly_shrinks(kernel: np.ndarray) -> None:
    largest = np.linalg.norm(np.asarray(jax.jit(spectrally_normalised)(kernel)), 2)
    assert 3 ** (-1 / 8) - 1e-3 < largest < 1 + 1e-4


def test_features_are_normalised_per_point_and_then_blurred() -> None:
    features = jnp.array([[[1.0, 3.0], [5.0, 5.0]]])
    keys = jax.random.split(jax.random.key(0), 1)
    many = jnp.tile(features, (1, 2000, 1))
    clear, noisy = (np.asarray(jax.jit(blurred)(many, keys, noise)) for noise in (0.0, 0.5))
    np.testing.assert_allclose(clear[:, :2], [[[-1, 1], [0, 0]]], atol=1e-5)
    assert np.std(noisy - clear) == pytest.approx(0.5, rel=0.05)


class LinearPass:
    """Linear networks: features are x W, logits features V."""

    def __init__(self, params: Any) -> None:
        self.params = params

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        raise NotImplementedError

    def with_features(self, x: Array) -> tuple[Array, Array]:
        features = jnp.einsum("kbd,kdf->kbf", x, self.params["W"])
        return jnp.einsum("kbf,kfc->kbc", features, self.params["V"]), features


METHOD = Dice(alpha=2.0, warm_up=10, hidden=4)


def setting(labels: tuple[int, ...] = (0, 1, 0, 1, 0, 0)) -> tuple[Any, Any, Batch]:
    """Networks and discriminators of three members for 4 inputs, 5 features and 6 classes, and a batch."""
    draw = np.random.default_rng(0).standard_normal
    params = {"W": draw((3, 4, 5)), "V": draw((3, 5, 6))}
    keys = jax.random.split(jax.random.key(1), 3)
    shapes = jax.eval_shape(jax.vmap(lambda key: METHOD.auxiliary(key, 5, 6)), keys)
    auxiliary = jax.tree.map(lambda leaf: draw(leaf.shape), shapes)
    y = np.tile(np.array(labels), (3, 1))
    batch = Batch(jnp.asarray(draw((*y.shape, 4))), jnp.asarray(y), jnp.ones(y.shape), key=keys)
    return jax.tree.map(lambda leaf: leaf if leaf is keys else jnp.asarray(leaf), (params, auxiliary, batch))


@jax.jit
def at_step(step: Array, params: Any, auxiliary: Any, batch: Batch) -> tuple[Array, Any, Any]:
    """The loss, and its gradients with respect to the networks and the discriminators."""
    batch = batch._replace(step=jnp.full(3, step))
    value, gradients = jax.value_and_grad(
        lambda params, auxiliary: METHOD.loss(LinearPass(params), batch._replace(auxiliary=auxiliary)), argnums=(0, 1)
    )(params, auxiliary)
    return value, *gradients


def ratios(params: Any, auxiliary: Any, batch: Batch) -> tuple[Array, Array, Array]:
    _, features = LinearPass(params).with_features(batch.on_the_same_rows().x)
    assert batch.key is not None
    z = blurred(features, batch.key, METHOD.noise)
    return log_ratios(with_bounded_slopes(auxiliary), z, batch.y[0], METHOD.bound)


@jax.jit
def expected(weight: float, params: Any, auxiliary: Any, batch: Batch) -> tuple[Array, Any, Any]:
    """The fit plus `weight` times the redundancy, its gradient with respect to the networks, and the gradient of the
    discriminators' loss with respect to them.
    """

    def of_networks(params: Any) -> Array:
        logits, _ = LinearPass(params).with_features(batch.on_the_same_rows().x)
        redundancy = over_others(redundancies(*ratios(params, auxiliary, batch)))
        return jnp.sum(cross_entropy(logits, batch.y)) + weight * jnp.sum(redundancy)

    def of_discriminators(auxiliary: Any) -> Array:
        return jnp.sum(over_others(discriminator_losses(*ratios(params, auxiliary, batch))))

    return *jax.value_and_grad(of_networks)(params), jax.grad(of_discriminators)(auxiliary)


def assert_close(found: Any, expected: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), found, expected)


@pytest.mark.parametrize(("step", "weight"), [(0, 0.0), (5, 1.0), (10, 2.0), (999, 2.0)])
def test_the_networks_feel_the_redundancy_with_a_weight_that_grows_and_the_discriminators_their_own_loss_alone(
    step: int, weight: float
) -> None:
    everything = setting()
    found, wanted = at_step(step, *everything), expected(weight, *everything)
    assert_close(found, wanted)
    assert (found[0] > expected(0.0, *everything)[0]) == (weight > 0)
    assert all(float(jnp.abs(leaf).max()) > 1e-3 for leaf in jax.tree.leaves(wanted[1:]))


def test_in_a_batch_without_pairs_only_the_fit_is_left() -> None:
    everything = setting(labels=(0, 1, 2, 3, 4, 5))
    value, gradient, of_discriminators = at_step(99, *everything)
    assert_close((value, gradient), expected(0.0, *everything)[:2])
    assert all((leaf == 0).all() for leaf in jax.tree.leaves(of_discriminators))


def test_whatever_the_features_and_weights_the_loss_stays_bounded() -> None:
    params, auxiliary, batch = setting()
    wild = {"W": 1e6 * params["W"], "V": 0 * params["V"]}
    value, *gradients = at_step(99, wild, jax.tree.map(lambda leaf: 1e6 * leaf, auxiliary), batch)
    assert float(value) <= 3 * (np.log(6) + METHOD.alpha * 2 * METHOD.bound)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradients))


def test_without_weight_it_is_the_standard_ensemble() -> None:
    assert Dice(alpha=0).effective() == Standard()
    assert Dice().effective() == Dice()
    assert methods.build("dice", alpha=0.5) == Dice(alpha=0.5)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"alpha": -0.1}, "alpha must be a number of at least 0, not -0.1; 0 is the standard ensemble"),
        ({"alpha": "auto"}, "alpha must be a number of at least 0, not 'auto'"),
        ({"warm_up": -1}, "warm_up must be a number of at least 0"),
        ({"noise": float("nan")}, "noise must be a number of at least 0"),
        ({"discriminator_learning_rate": 0}, "discriminator_learning_rate must be a number above 0, not 0"),
        ({"bound": float("inf")}, "bound must be a number of at least 0, not inf; give one above 0"),
        ({"hidden": 0}, "hidden must be a whole number"),
    ],
)
def test_bad_hyper_parameters_are_refused(options: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Dice(**options)
