"""Equinox modules as models: one sample at a time, arrays apart from everything else, stateful layers."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from nu_ensembles.errors import InputError, MissingExtraError
from nu_ensembles.models import from_equinox

X = jnp.arange(8.0).reshape(4, 2) / 8
KEY = jax.random.key(0)


class Net(eqx.Module):
    """A column order (integers), a function and a flag beside the weights."""

    layers: list[eqx.nn.Linear]
    order: Array
    dropout: eqx.nn.Dropout
    activation: Callable[[Array], Array] = jax.nn.relu

    def __init__(self, key: Array) -> None:
        keys = jax.random.split(key)
        self.layers = [eqx.nn.Linear(2, 5, key=keys[0]), eqx.nn.Linear(5, 3, key=keys[1])]
        self.order = jnp.array([1, 0])
        self.dropout = eqx.nn.Dropout(0.5)

    def features(self, x: Array, *, key: Array | None = None) -> Array:
        return self.dropout(self.activation(self.layers[0](x[self.order])), key=key)

    def __call__(self, x: Array, *, key: Array | None = None) -> Array:
        return self.layers[1](self.features(x, key=key))


def test_floating_point_arrays_are_trained_and_integers_are_kept() -> None:
    shapes = jax.tree.map(jnp.shape, from_equinox(Net).init(KEY, X))
    layers = {"0": {"weight": (5, 2), "bias": (5,)}, "1": {"weight": (3, 5), "bias": (3,)}}
    assert shapes == {"params": {"layers": layers}, "buffers": {"order": (2,)}}


def test_logits_are_those_of_the_module_on_each_sample() -> None:
    model = from_equinox(Net)
    module = eqx.nn.inference_mode(Net(KEY))
    expected = jnp.stack([module(x) for x in X])
    np.testing.assert_allclose(model.apply(model.init(KEY, X), X), expected, rtol=1e-5)


def test_dropout_masks_are_per_sample() -> None:
    model = from_equinox(lambda key: eqx.nn.Sequential([eqx.nn.Dropout(0.5), eqx.nn.Identity()]))
    twice = jnp.ones((2, 64))
    dropped = model.apply({}, twice, key=KEY, train=True)
    assert set(np.unique(dropped)) == {0.0, 2.0}
    assert bool(jnp.any(dropped[0] != dropped[1]))
    np.testing.assert_array_equal(model.apply({}, twice, key=KEY, train=False), twice)


def test_buffers_come_back_unchanged_as_state() -> None:
    model = from_equinox(Net)
    _, state = model.apply(model.init(KEY, X), X, key=KEY, train=True)
    np.testing.assert_array_equal(state["buffers"]["order"], [1, 0])


def test_features_feed_the_last_layer() -> None:
    model = from_equinox(Net, features_method="features")
    variables = model.init(KEY, X)
    assert model.features is not None
    last = variables["params"]["layers"]["1"]
    features = model.features(variables, X, key=None, train=False)
    assert features.shape == (4, 5)
    np.testing.assert_allclose(
        features @ last["weight"].T + last["bias"], model.apply(variables, X), rtol=1e-5, atol=1e-6
    )


class NormNet(eqx.Module):
    norm: eqx.nn.BatchNorm
    last: eqx.nn.Linear

    def __init__(self, key: Array) -> None:
        self.norm = eqx.nn.BatchNorm(2, axis_name="rows", mode="batch", momentum=0.5)
        self.last = eqx.nn.Linear(2, 3, key=key)

    def __call__(self, x: Array, state: eqx.nn.State) -> tuple[Array, eqx.nn.State]:
        x, state = self.norm(x, state)
        return self.last(x), state


@pytest.mark.parametrize("factory", [NormNet, eqx.nn.make_with_state(NormNet)], ids=["module", "with state"])
def test_batch_statistics_move_in_training_and_serve_in_prediction(factory: Any) -> None:
    model = from_equinox(factory, axis_name="rows")
    variables = model.init(KEY, X)
    _, state = model.apply(variables, X, key=None, train=True)
    # The columns' means are 3/8 and 4/8; momentum 0.5 goes halfway from 0 to them.
    assert any(np.allclose(leaf, [3 / 16, 4 / 16]) for leaf in jax.tree.leaves(state))
    once, twice = (model.apply({**variables, **state}, X[:n], key=None, train=False) for n in (2, 4))
    np.testing.assert_allclose(once, twice[:2], rtol=1e-5, atol=1e-6)


def test_a_module_with_weights_is_taken_with_a_warning() -> None:
    with pytest.warns(UserWarning, match="Every member will start from this module's own weights"):
        model = from_equinox(Net(KEY))  # pyright: ignore[reportArgumentType]
    stacked = jax.vmap(lambda key: model.init(key, X))(jax.random.split(KEY, 2))
    weight = stacked["params"]["layers"]["0"]["weight"]
    np.testing.assert_array_equal(weight[0], weight[1])


@pytest.mark.parametrize(
    ("factory", "sentence"),
    [
        (3, "factory must be a function, not 3"),
        (lambda key: 3, r"a factory that returns a callable eqx\.Module; this one does not"),
    ],
)
def test_what_makes_no_module_is_refused(factory: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        from_equinox(factory)


def test_without_equinox_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "equinox", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'nu-ensembles\[equinox\]'"):
        from_equinox(Net)


def test_a_model_can_be_pickled() -> None:
    model = from_equinox(Net, features_method="features")
    copy = pickle.loads(pickle.dumps(model))
    variables = model.init(KEY, X)
    np.testing.assert_array_equal(model.apply(variables, X), copy.apply(variables, X))
