"""Flax NNX modules as models: factories, modes, random streams, state."""

from __future__ import annotations

import pickle
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import Array

from nu_ensembles.errors import InputError
from nu_ensembles.models import from_nnx

X = jnp.ones((4, 2))
KEY = jax.random.key(0)


class Net(nnx.Module):
    """Dropout on the input, a counter of calls, a list of layers."""

    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.dropout = nnx.Dropout(0.5, rngs=rngs)
        self.calls = nnx.Variable(jnp.zeros((), jnp.int32))
        self.layers = nnx.List([nnx.Linear(2, 5, rngs=rngs), nnx.Linear(5, 3, rngs=rngs)])

    def features(self, x: Array) -> Array:
        return self.layers[0](self.dropout(x))

    def __call__(self, x: Array) -> Array:
        self.calls[...] += 1
        return self.layers[1](self.features(x))


def test_parameters_are_named_by_their_place_in_the_module() -> None:
    variables = from_nnx(Net).init(KEY, X)
    shapes = jax.tree.map(jnp.shape, variables)
    layer = {"0": {"kernel": (2, 5), "bias": (5,)}, "1": {"kernel": (5, 3), "bias": (3,)}}
    assert shapes == {"params": {"layers": layer}, "state": {"calls": ()}}


@pytest.mark.parametrize(
    "factory",
    [Net, lambda rngs: Net(rngs=rngs), lambda streams: Net(rngs=streams)],
    ids=["class", "rngs", "other"],
)
def test_a_factory_may_be_a_class_or_a_function_of_any_argument_name(factory: Any) -> None:
    model = from_nnx(factory)
    assert model.apply(model.init(KEY, X), X).shape == (4, 3)


def test_initial_weights_are_those_of_the_module_itself() -> None:
    ours = from_nnx(Net).init(KEY, X)["params"]["layers"]["1"]["kernel"]
    np.testing.assert_array_equal(ours, Net(rngs=nnx.Rngs(KEY)).layers[1].kernel[...])


def test_dropout_follows_the_key_and_is_off_without_one() -> None:
    model = from_nnx(Net)
    variables = model.init(KEY, X)
    plain = model.apply(variables, X, key=None, train=False)
    first, _ = model.apply(variables, X, key=KEY, train=True)
    again, _ = model.apply(variables, X, key=KEY, train=True)
    quiet, _ = model.apply(variables, X, key=None, train=True)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(plain, quiet)
    assert float(jnp.abs(first - plain).max()) > 0


def test_old_style_keys_work_as_well() -> None:
    model = from_nnx(Net)
    key = jax.random.PRNGKey(0)
    logits, _ = model.apply(model.init(key, X), X, key=key, train=True)
    assert logits.shape == (4, 3)


def test_state_counts_training_calls_alone() -> None:
    model = from_nnx(Net)
    variables = model.init(KEY, X)
    _, state = model.apply(variables, X, key=KEY, train=True)
    assert state == {"state": {"calls": 1}}
    assert variables["state"]["calls"] == 0
    assert isinstance(model.apply(variables, X, key=KEY, train=False), jax.Array)


def test_features_feed_the_last_layer() -> None:
    model = from_nnx(Net, features_method="features")
    variables = model.init(KEY, X)
    assert model.features is not None
    last = variables["params"]["layers"]["1"]
    features = model.features(variables, X, key=None, train=False)
    np.testing.assert_allclose(features @ last["kernel"] + last["bias"], model.apply(variables, X), rtol=1e-5)


class TakesArguments(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.layer = nnx.Linear(2, 3, rngs=rngs)

    def __call__(self, x: Array, *, train: bool, rngs: nnx.Rngs | None = None) -> Array:
        logits = self.layer(x)
        return logits + rngs.normal(logits.shape) if train and rngs is not None else logits


def test_a_call_that_takes_train_and_rngs_gets_them() -> None:
    model = from_nnx(TakesArguments)
    variables = model.init(KEY, X)
    plain = model.apply(variables, X, key=KEY, train=False)
    assert float(jnp.abs(model.apply(variables, X, key=KEY, train=True) - plain).min()) > 0
    np.testing.assert_array_equal(model.apply(variables, X, key=None, train=True), plain)


def test_a_module_with_weights_is_taken_with_a_warning_and_left_as_it_was() -> None:
    module = Net(rngs=nnx.Rngs(0))
    with pytest.warns(UserWarning, match="Every member will start from this module's own weights"):
        model = from_nnx(module)
    stacked = jax.vmap(lambda key: model.init(key, X))(jax.random.split(KEY, 2))
    kernel = stacked["params"]["layers"]["0"]["kernel"]
    np.testing.assert_array_equal(kernel[0], kernel[1])
    jax.vmap(lambda v, key: model.apply(v, X, key=key, train=True))(stacked, jax.random.split(KEY, 2))
    assert module.calls[...] == 0
    assert module.dropout.deterministic is False


def test_a_factory_that_returns_a_module_with_weights_means_it() -> None:
    module = Net(rngs=nnx.Rngs(0))
    kernel = from_nnx(lambda rngs: module).init(KEY, X)["params"]["layers"]["0"]["kernel"]
    np.testing.assert_array_equal(kernel, module.layers[0].kernel[...])


class BareArray(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.inner = nnx.Linear(2, 3, rngs=rngs)
        self.scale = jnp.ones(3)


def test_an_array_outside_any_variable_is_refused_by_name() -> None:
    with pytest.raises(InputError, match=r"attribute scale is a bare array; wrap it in nnx\.Param"):
        from_nnx(BareArray)


@pytest.mark.parametrize(
    ("factory", "sentence"),
    [
        (3, r"from_nnx takes a factory such as lambda rngs: Net\(rngs=rngs\), not 3"),
        (lambda rngs: 3, r"a factory that returns an nnx\.Module; this one returns something else"),
    ],
)
def test_what_makes_no_module_is_refused(factory: Any, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        from_nnx(factory)


def test_a_missing_features_method_is_named() -> None:
    with pytest.raises(InputError, match="Net has no method 'penultimate'"):
        from_nnx(Net, features_method="penultimate")


def test_a_model_can_be_pickled() -> None:
    model = from_nnx(Net, features_method="features")
    copy = pickle.loads(pickle.dumps(model))
    variables = model.init(KEY, X)
    for original, copied in ((model.apply, copy.apply), (model.features, copy.features)):
        assert original is not None
        assert copied is not None
        np.testing.assert_array_equal(original(variables, X), copied(variables, X))
