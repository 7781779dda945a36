"""Bias, ReLU, dropout and pooling between convolutions: the plain expressions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from nu_ensembles.models.activations import average_pool, biased_convolution, biased_relu, biased_relu_dropout
from nu_ensembles.models.layers import conv
from nu_ensembles.models.masks import Kept

SHAPE = (2, 3, 5, 4)
RNG = np.random.default_rng(0)
X = jnp.asarray(RNG.standard_normal(SHAPE), jnp.float32)
G = jnp.asarray(RNG.standard_normal(SHAPE), jnp.float32)
KEEP = jnp.asarray(RNG.random(SHAPE) < 0.7)


def value_and_gradients(function: Callable[..., Array], *arguments: Array) -> Any:
    """The result, and the gradients of its product with G."""

    def pulled(*arguments: Array) -> tuple[Array, Any]:
        y, pull_back = jax.vjp(function, *arguments)
        return y, pull_back(G.astype(y.dtype))

    return jax.jit(pulled)(*arguments)


def assert_same(found: Any, expected: Any, tolerance: float = 1e-6) -> None:
    assert jax.tree.map(lambda a: (a.shape, a.dtype), found) == jax.tree.map(lambda a: (a.shape, a.dtype), expected)
    jax.tree.map(
        lambda a, b: np.testing.assert_allclose(
            a.astype(jnp.float32), b.astype(jnp.float32), rtol=tolerance, atol=tolerance
        ),
        found,
        expected,
    )


def test_biased_relu_on_numbers_one_can_check() -> None:
    x, bias = jnp.array([[-2.0, 0.5], [1.0, -0.25]]), jnp.array([0.5])
    y, pull_back = jax.vjp(lambda x, bias: biased_relu(x, bias, "float32"), x, bias)
    np.testing.assert_array_equal(y, [[0.0, 1.0], [1.5, 0.25]])
    to_x, to_bias = pull_back(jnp.array([[1.0, 2.0], [4.0, 8.0]]))
    np.testing.assert_array_equal(to_x, [[0.0, 2.0], [4.0, 8.0]])
    np.testing.assert_array_equal(to_bias, [14.0])


@pytest.mark.parametrize("n_biases", [1, SHAPE[-1]])
def test_biased_relu_is_the_plain_expression_in_values_and_gradients(n_biases: int) -> None:
    bias = jnp.linspace(-0.5, 0.5, n_biases)
    found = value_and_gradients(lambda x, b: biased_relu(x, b, "float32"), X, bias)
    assert_same(found, value_and_gradients(lambda x, b: jax.nn.relu(x + b), X, bias))


def test_biased_relu_adds_up_a_biass_gradient_in_float32_whatever_the_activations_dtype() -> None:
    # Ones in bfloat16 stop adding up at 256.
    x, bias = jnp.ones((1, 32, 32, 1), jnp.bfloat16), jnp.zeros(1)
    rectified: Any = biased_relu
    gradient = jax.grad(lambda b: jnp.sum(rectified(x, b, "bfloat16").astype(jnp.float32)))(bias)
    assert gradient.dtype == jnp.float32
    np.testing.assert_array_equal(gradient, [1024.0])


def test_the_gradient_of_bfloat16_activations_is_bfloat16() -> None:
    x = X.astype(jnp.bfloat16)
    y, (to_x, to_bias) = value_and_gradients(lambda x, b: biased_relu(x, b, "bfloat16"), x, jnp.array([0.1]))
    assert (y.dtype, to_x.dtype, to_bias.dtype) == (jnp.bfloat16, jnp.bfloat16, jnp.float32)


def plain_dropout(x: Array, before: Array, after: Array) -> Array:
    return jnp.where(KEEP, (jax.nn.relu(x + before) + after) / 0.7, 0)


def ours_with_dropout(x: Array, before: Array, after: Array) -> Array:
    return biased_relu_dropout(x, before, after, Kept(KEEP, 0.7), "float32")


def test_dropout_between_two_biases_is_the_plain_expression_in_values_and_gradients() -> None:
    arguments = X, jnp.array([0.2]), jnp.array([-0.3])
    assert_same(
        value_and_gradients(ours_with_dropout, *arguments), value_and_gradients(plain_dropout, *arguments), 2e-6
    )


def test_a_mask_for_all_images_is_that_of_each() -> None:
    biases, kept = (jnp.array([0.2]), jnp.array([-0.3])), Kept(KEEP[:1], 0.7)
    found = biased_relu_dropout(X, *biases, kept, "float32")
    each = [biased_relu_dropout(X[i : i + 1], *biases, kept, "float32") for i in range(len(X))]
    np.testing.assert_array_equal(found, jnp.concatenate(each))


def test_without_a_mask_nothing_is_dropped() -> None:
    found = biased_relu_dropout(jnp.array([-2.0, 1.0]), jnp.array([0.5]), jnp.array([0.25]), None, "float32")
    np.testing.assert_array_equal(found, [0.25, 1.75])


@pytest.mark.parametrize("size", [(7, 12), (2, 1)])
def test_a_convolution_of_a_shifted_image_is_the_plain_one_in_values_and_gradients(size: tuple[int, int]) -> None:
    layer = conv(5, (3, 3), use_bias=False, dtype="float32")
    x, bias = jnp.asarray(RNG.standard_normal((3, *size, 2)), jnp.float32), jnp.array([0.7])
    variables = layer.init(jax.random.key(0), x)

    def loss(apply: Callable[..., Array]) -> Any:
        def total(variables: Any, bias: Array) -> Array:
            convolved: Any = layer.apply(variables, x, bias, method=apply)
            return jnp.sum(jnp.sin(convolved))

        return jax.value_and_grad(total, (0, 1))

    found = loss(lambda layer, x, bias: biased_convolution(layer, x, bias, "float32"))(variables, bias)
    assert_same(found, loss(lambda layer, x, bias: layer(x + bias))(variables, bias), 2e-5)


def test_gradients_are_the_same_under_a_vmap_over_members() -> None:
    x, before = jnp.stack([X, -X]), jnp.array([[0.2], [-0.1]])

    def gradient(function: Callable[..., Array]) -> Any:
        def one(x: Array, before: Array) -> Array:
            return jnp.sum(G * function(x, before, -before))

        return jax.jit(jax.grad(lambda x, b: jnp.sum(jax.vmap(one)(x, b)), (0, 1)))(x, before)

    assert_same(gradient(ours_with_dropout), gradient(plain_dropout), 1e-5)


@pytest.mark.parametrize(("height", "width"), [(4, 6), (5, 7), (4, 5)])
def test_average_pool_takes_means_of_four_pixels_and_drops_an_odd_last_row_and_column(height: int, width: int) -> None:
    x = jnp.asarray(RNG.standard_normal((2, height, width, 3)), jnp.float32)

    def by_hand(x: Array) -> Array:
        x = x[:, : height // 2 * 2, : width // 2 * 2]
        return (x[:, ::2, ::2] + x[:, 1::2, ::2] + x[:, ::2, 1::2] + x[:, 1::2, 1::2]) / 4

    found, expected = (
        jax.jit(jax.value_and_grad(lambda x, f=f: jnp.sum(jnp.sin(f(x)))))(x) for f in (average_pool, by_hand)
    )
    assert average_pool(x).shape == (2, height // 2, width // 2, 3)
    assert_same(found, expected, 1e-5)


def test_average_pool_sums_in_float32() -> None:
    # 256 + 1 is 256 in bfloat16; the mean of 256, 1, 1, 2 is 65.
    x = jnp.array([[256, 1], [1, 2]], jnp.bfloat16)[None, :, :, None]
    assert average_pool(x).item() == 65.0
