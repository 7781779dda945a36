"""Convolutions are found wherever a network hides them, without computing anything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import Array

from nu_ensembles import models
from nu_ensembles.errors import InputError
from nu_ensembles.models import Model, uses_convolution, variable_shapes
from nu_ensembles.models.inspect import read_network


def convolve(x: Array) -> Array:
    return jax.lax.conv(x, jnp.ones((1, x.shape[1], 1, 1)), (1, 1), "SAME")


@jax.custom_vjp
def custom(x: Array) -> Array:
    return convolve(x)


custom.defvjp(lambda x: (custom(x), x), lambda x, g: (g,))


@jax.custom_batching.custom_vmap
def batched(x: Array) -> Array:
    return convolve(x)


batched.def_vmap(lambda axis_size, in_batched, x: (jax.lax.map(convolve, x), True))


HIDDEN: dict[str, Callable[[Array], Array]] = {
    "plain": convolve,
    "jit": jax.jit(convolve),
    "remat": jax.checkpoint(convolve),
    "custom_vjp": custom,
    "custom_vmap": batched,
    "vmap": lambda x: jax.vmap(lambda image: convolve(image[None])[0])(x),
    "scan": lambda x: jax.lax.scan(lambda c, _: (c, convolve(x)), 0, jnp.arange(2))[1][0],
    "while": lambda x: jax.lax.fori_loop(0, 2, lambda _, c: c + convolve(x)[:, :1], x),
    "cond": lambda x: jax.lax.cond(x.sum() > 0, convolve, lambda x: x[:, :1], x),
    "jit in scan in jit": jax.jit(lambda x: jax.lax.map(jax.jit(lambda image: convolve(image[None])[0]), x)),
}


def stateless(function: Callable[[Array], Array]) -> Model:
    def apply(variables: Any, x: Array, *, key: Array | None, train: bool) -> Array:
        return function(x)

    return Model(lambda key, x: (), apply)


@pytest.mark.parametrize("place", HIDDEN)
def test_a_convolution_is_found_inside_anything(place: str) -> None:
    assert uses_convolution(stateless(HIDDEN[place]), (2, 1, 4, 4), "float32")


class NnxConvolution(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.layer = nnx.Conv(1, 2, (3, 3), rngs=rngs)

    def __call__(self, x: Array) -> Array:
        return self.layer(x).mean((1, 2))


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        (models.mlp(3), False),
        (models.lenet(3), True),
        (models.build("wrn-10-1", 3), True),
        (models.from_linen(nn.Sequential([nn.Dense(4), nn.relu, nn.Dense(3)])), False),
        (models.from_nnx(NnxConvolution), True),
    ],
)
def test_networks_are_told_apart(model: Model, expected: bool) -> None:
    assert uses_convolution(model, (2, 8, 8, 1), jnp.float32) == expected


@pytest.mark.parametrize(("name", "n"), [("mlp", 0), ("lenet", 2), ("wrn-22-4", 1 + 18 + 3)])
def test_convolutions_are_counted(name: str, n: int) -> None:
    assert read_network(models.build(name, 3), (8, 8, 1)).n_convolutions == n


def test_nothing_is_computed() -> None:
    # An image of a terabyte would be noticed.
    assert read_network(models.lenet(10), (1 << 19, 1 << 19, 1)).output.shape == (2, 10)


def test_a_network_is_read_once_for_each_shape_dtype_and_setting_of_jax() -> None:
    traced = []

    def init(key, x):
        traced.append(x.shape)
        return {"w": jnp.zeros((x.shape[1], 2))}  # whose dtype hangs on the setting

    model = Model(init, lambda variables, x, *, key, train: x @ variables["w"])
    for _ in range(2):
        assert variable_shapes(model, (3,))["w"].dtype == jnp.float32
        assert not uses_convolution(model, (7, 3))
    assert traced == [(1, 3)]
    with jax.enable_x64(True):
        assert variable_shapes(model, (3,))["w"].dtype == jnp.float64
    assert variable_shapes(model, (4,))["w"].shape == (4, 2)
    assert traced == [(1, 3), (1, 3), (1, 4)]


def test_the_shape_of_a_row_is_whole_numbers_however_they_are_given() -> None:
    network = models.mlp(3, hidden=(4,))
    as_arrays: Any = [np.array(2)]
    assert variable_shapes(network, as_arrays) == variable_shapes(network, (2,))
    with pytest.raises(InputError, match="row_shape must be"):
        variable_shapes(network, (2.5,))  # pyright: ignore[reportArgumentType]
