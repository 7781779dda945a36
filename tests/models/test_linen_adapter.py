"""Flax Linen modules as models: flags, random streams, mutable collections."""

from __future__ import annotations

import pickle
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import Array

from nu_ensembles.errors import InputError
from nu_ensembles.models import from_linen

X = jnp.ones((4, 2))
KEY = jax.random.key(0)


class Reporter(nn.Module):
    """Returns the flags that it was given instead of logits."""

    @nn.compact
    def __call__(
        self,
        x: Array,
        train: bool,
        *,
        training: bool,
        deterministic: bool,
        use_running_average: bool,
        scale: float = 1.0,
    ) -> Array:
        flags = jnp.array([train, training, deterministic, use_running_average], jnp.float32)
        return scale * jnp.broadcast_to(flags, (x.shape[0], 4))


@pytest.mark.parametrize(
    ("key", "train", "flags"),
    [
        (KEY, True, [1, 1, 0, 0]),
        (None, True, [1, 1, 1, 0]),
        (KEY, False, [0, 0, 1, 1]),
        (None, False, [0, 0, 1, 1]),
    ],
)
def test_each_flag_that_the_module_takes_is_set(key: Array | None, train: bool, flags: list[int]) -> None:
    model = from_linen(Reporter())
    np.testing.assert_array_equal(model.apply(model.init(KEY, X), X, key=key, train=train)[0], flags)


def test_further_options_reach_the_module_in_every_call() -> None:
    model = from_linen(Reporter(), scale=3.0, deterministic=False)
    np.testing.assert_array_equal(model.apply({}, X, key=None, train=False)[0], [0, 0, 0, 3])


class Counting(nn.Module):
    """Two mutable collections and a random stream of an unusual name."""

    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        h = nn.BatchNorm(use_running_average=not train, momentum=0.5)(x)
        calls = self.variable("counters", "calls", lambda: jnp.zeros((), jnp.int32))
        if train and not self.is_initializing():
            calls.value += 1
            h += jax.random.normal(self.make_rng("noise"), h.shape)
        return nn.Dense(3)(h)

    def features(self, x: Array, train: bool) -> Array:
        return self(x, train)[:, :2]

    def both(self, x: Array, train: bool) -> tuple[Array, Array]:
        logits = self(x, train)
        return logits, logits[:, :2]


def test_all_collections_but_params_are_updated_in_training() -> None:
    model = from_linen(Counting(), rng_streams=("dropout", "noise"))
    variables = model.init(KEY, X)
    assert set(variables) == {"params", "batch_stats", "counters"}
    _, state = model.apply(variables, 3 * X, key=KEY, train=True)
    assert set(state) == {"batch_stats", "counters"}
    assert state["counters"]["calls"] == 1
    # momentum 0.5: halfway from the initial mean 0 to the batch's mean 3
    np.testing.assert_allclose(state["batch_stats"]["BatchNorm_0"]["mean"], [1.5, 1.5])


def test_features_of_a_module_with_state_are_an_array_alone() -> None:
    model = from_linen(Counting(), rng_streams=("noise",), features_method="features")
    assert model.features is not None
    assert model.features(model.init(KEY, X), X, key=KEY, train=True).shape == (4, 2)


def test_a_method_for_both_gives_what_apply_gives_and_the_features() -> None:
    model = from_linen(Counting(), rng_streams=("noise",), features_method="features", both_method="both")
    assert model.apply_with_features is not None
    variables = model.init(KEY, X)
    (logits, state), features = model.apply_with_features(variables, X, key=KEY, train=True)
    expected, expected_state = model.apply(variables, X, key=KEY, train=True)
    np.testing.assert_array_equal(logits, expected)
    np.testing.assert_array_equal(features, expected[:, :2])
    assert state["counters"]["calls"] == expected_state["counters"]["calls"] == 1


def test_state_keeps_its_dtype_under_wider_inputs() -> None:
    with jax.enable_x64(True):
        model = from_linen(Counting(), rng_streams=("noise",))
        variables = model.init(KEY, X.astype(jnp.float32))
        _, state = model.apply(variables, X.astype(jnp.float64), key=KEY, train=True)
    assert state["batch_stats"]["BatchNorm_0"]["mean"].dtype == jnp.float32


class Unhashable(nn.Module):
    widths: Any

    @nn.compact
    def __call__(self, x: Array) -> Array:
        return nn.Dense(int(self.widths[0]))(x)


def test_equal_modules_give_one_model_and_unhashable_ones_work_all_the_same() -> None:
    assert from_linen(nn.Dense(3)) is from_linen(nn.Dense(3))
    assert from_linen(nn.Dense(3)) is not from_linen(nn.Dense(4))
    model = from_linen(Unhashable(np.array([3])))
    assert model.apply(model.init(KEY, X), X).shape == (4, 3)


@pytest.mark.parametrize("not_a_module", [nn.Dense, nn.relu, None])
def test_a_class_or_a_function_is_refused(not_a_module: Any) -> None:
    with pytest.raises(InputError, match=r"from_linen takes an instance of a flax\.linen\.Module"):
        from_linen(not_a_module)


def test_a_missing_features_method_is_named() -> None:
    with pytest.raises(InputError, match="Dense has no method 'penultimate'"):
        from_linen(nn.Dense(3), features_method="penultimate")


def test_a_model_can_be_pickled() -> None:
    model = from_linen(Counting(), features_method="features", rng_streams=("dropout", "noise"))
    assert pickle.loads(pickle.dumps(model)) is model
