"""Gradients of dense layers as two factors: which leaves can be, and that their product is the gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from nu_ensembles.engine.factors import Factors, in_factors, is_factors

R, B, WIDTHS = 3, 5, (8, 16, 4)
X = jax.random.normal(jax.random.key(0), (R, B, WIDTHS[0]))


class Perceptron(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        h = nn.relu(nn.Dense(WIDTHS[1])(x))
        return nn.Dense(WIDTHS[2])(h)


def _kernels(*shapes: tuple[int, int]) -> dict[str, jax.Array]:
    keys = jax.random.split(jax.random.key(1), len(shapes))
    return {f"w{n}": jax.random.normal(keys[n], (R, *shape)) for n, shape in enumerate(shapes)}


def gradients(loss: Callable[[Any], jax.Array], params: Any, suit: Callable[..., bool]) -> tuple[Any, Any]:
    """Plain ones, and those in factors, both from within a compiled program."""

    def both(params: Any) -> tuple[Any, Any]:
        _, pull_back = jax.vjp(loss, params)
        (plain,), (found,) = pull_back(jnp.ones(())), in_factors(pull_back, jnp.ones(()), suit)
        return plain, found

    return jax.jit(both)(params)


def multiplied(found: Any) -> Any:
    def product(leaf: Any) -> Any:
        return jnp.einsum("rbm,rbn->rmn", leaf.left, leaf.right) if is_factors(leaf) else leaf

    return jax.tree.map(product, found, is_leaf=is_factors)


def places(found: Any) -> list[str]:
    """The names of the leaves that are factors."""
    leaves = jax.tree_util.tree_leaves_with_path(found, is_leaf=is_factors)
    return [jax.tree_util.keystr(path, simple=True, separator="/") for path, leaf in leaves if is_factors(leaf)]


def close(one: Any, other: Any) -> None:
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5), one, other)


def test_kernels_of_linen_layers_are_factors_and_biases_are_not() -> None:
    network = Perceptron()
    params = jax.vmap(lambda key: network.init(key, X[0]))(jax.random.split(jax.random.key(2), R))
    plain, found = gradients(lambda p: jnp.sum(jax.vmap(network.apply)(p, X) ** 2), params, lambda *_: True)
    assert places(found) == ["params/Dense_0/kernel", "params/Dense_1/kernel"]
    first = found["params"]["Dense_0"]["kernel"]
    assert isinstance(first, Factors)
    np.testing.assert_array_equal(first.left, X)
    assert first.right.shape == (R, B, WIDTHS[1])
    np.testing.assert_allclose(first.came_back, plain["params"]["Dense_0"]["bias"], rtol=1e-5, atol=1e-6)
    close(multiplied(found), plain)


def test_so_are_those_of_products_written_by_hand_whichever_axis_comes_first() -> None:
    params = _kernels((8, 16), (4, 16))

    def loss(p: Any) -> jax.Array:
        h = jnp.tanh(jax.vmap(jnp.matmul)(X, p["w0"]))
        return jnp.sum(jax.vmap(jax.vmap(lambda h, w: w @ h, in_axes=(0, None)))(h, p["w1"]) ** 2)

    plain, found = gradients(loss, params, lambda *_: True)
    assert places(found) == ["w0", "w1"]
    close(multiplied(found), plain)
    # In the second kernel `[R, O, I]` what came back is on the left.
    for name, came_back in (("w0", found["w0"].right), ("w1", found["w1"].left)):
        np.testing.assert_allclose(found[name].came_back, came_back.sum(axis=1), rtol=1e-5)


def test_only_what_suits() -> None:
    params = _kernels((8, 16), (16, 4))

    def loss(p: Any) -> jax.Array:
        return jnp.sum(jax.vmap(lambda x, a, b: jnp.tanh(x @ a) @ b)(X, p["w0"], p["w1"]) ** 2)

    plain, found = gradients(loss, params, lambda left, right: (left.shape, right.shape) == ((R, B, 16), (R, B, 4)))
    assert places(found) == ["w1"]
    close(multiplied(found), plain)


@pytest.mark.parametrize("why", ["two layers", "a penalty", "no use at all", "another precision", "no lanes"])
def test_a_gradient_that_is_not_one_plain_product_stays_as_it_is(why: str) -> None:
    params = _kernels((8, 8))

    def loss(p: Any) -> jax.Array:
        w = p["w0"]
        if why == "no use at all":
            return jnp.sum(X**2)
        if why == "another precision":
            return jnp.sum(jax.vmap(lambda x, w: jnp.matmul(x, w, precision="highest"))(X, w) ** 2)
        if why == "no lanes":
            return jnp.sum((X[0] @ w[0]) ** 2)
        h = jax.vmap(jnp.matmul)(X, w)
        if why == "two layers":
            return jnp.sum(jax.vmap(jnp.matmul)(h, w) ** 2)
        return jnp.sum(h**2) + jnp.sum(w**2)

    plain, found = gradients(loss, params, lambda *_: True)
    assert places(found) == []
    close(found, plain)
