"""Every model, built-in or adapted, is written for one member and must take the engine's axis of members."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import nnx
from jax import Array

from nu_ensembles import models
from nu_ensembles.models import Model, join_variables, split_variables

N_MEMBERS, N_ROWS, N_COLUMNS, N_CLASSES = 2, 6, 5, 3


class LinenNet(nn.Module):
    @nn.compact
    def __call__(self, x: Array, train: bool) -> Array:
        h = nn.Dense(8)(x)
        h = nn.relu(nn.BatchNorm(use_running_average=not train, momentum=0.9)(h))
        h = nn.Dropout(0.5, deterministic=not train)(h)
        return nn.Dense(N_CLASSES)(h)


class NnxNet(nnx.Module):
    def __init__(self, *, rngs: nnx.Rngs) -> None:
        self.layers = nnx.List([nnx.Linear(N_COLUMNS, 8, rngs=rngs), nnx.Linear(8, N_CLASSES, rngs=rngs)])
        self.norm = nnx.BatchNorm(8, momentum=0.9, rngs=rngs)
        self.dropout = nnx.Dropout(0.5, rngs=rngs)

    def __call__(self, x: Array) -> Array:
        return self.layers[1](self.dropout(nnx.relu(self.norm(self.layers[0](x)))))


class EquinoxNet(eqx.Module):
    mlp: eqx.nn.MLP
    dropout: eqx.nn.Dropout

    def __init__(self, key: Array) -> None:
        self.mlp = eqx.nn.MLP(N_COLUMNS, N_CLASSES, 8, 1, key=key)
        self.dropout = eqx.nn.Dropout(0.5)

    def __call__(self, x: Array, *, key: Array | None = None) -> Array:
        return self.mlp(self.dropout(x, key=key))


class EquinoxBatchNormNet(eqx.Module):
    first: eqx.nn.Linear
    norm: eqx.nn.BatchNorm
    last: eqx.nn.Linear

    def __init__(self, key: Array) -> None:
        keys = jax.random.split(key)
        self.first = eqx.nn.Linear(N_COLUMNS, 8, key=keys[0])
        self.norm = eqx.nn.BatchNorm(8, axis_name="batch", mode="batch")
        self.last = eqx.nn.Linear(8, N_CLASSES, key=keys[1])

    def __call__(self, x: Array, state: eqx.nn.State) -> tuple[Array, eqx.nn.State]:
        h, state = self.norm(self.first(x), state)
        return self.last(jax.nn.relu(h)), state


def plain_model() -> Model:
    """Logistic regression by hand: the variables are a tuple, without collections."""

    def init(key: Array, x: Array) -> Any:
        return 0.1 * jax.random.normal(key, (x.shape[-1], N_CLASSES)), jnp.zeros(N_CLASSES)

    def apply(variables: Any, x: Array, *, key: Array | None, train: bool) -> Array:
        return x @ variables[0] + variables[1]

    return Model(init, apply)


TABLE, IMAGE = (N_ROWS, N_COLUMNS), (N_ROWS, 8, 8, 1)
CASES: dict[str, tuple[Callable[[], Model], tuple[int, ...], bool, bool]] = {
    # name: how it is made, shape of a batch, has mutable state, is random in training
    "by hand": (plain_model, TABLE, False, False),
    "mlp": (lambda: models.mlp(N_CLASSES, hidden=(8,), dropout=0.5), TABLE, False, True),
    "lenet": (lambda: models.lenet(N_CLASSES), IMAGE, False, False),
    "wide_resnet": (lambda: models.build("wrn-10-1", N_CLASSES, shared_dropout=True), IMAGE, False, True),
    "linen": (lambda: models.from_linen(LinenNet()), TABLE, True, True),
    "nnx": (lambda: models.from_nnx(NnxNet), TABLE, True, True),
    "equinox": (lambda: models.from_equinox(EquinoxNet), TABLE, False, True),
    "equinox with state": (lambda: models.from_equinox(EquinoxBatchNormNet), TABLE, True, False),
}


class Setting:
    """Two members of one model with a batch each."""

    def __init__(self, name: str) -> None:
        make, shape, self.has_state, self.is_random = CASES[name]
        self.model = make()
        self.x = jax.random.normal(jax.random.key(1), (N_MEMBERS, *shape))
        self.y = jnp.arange(N_ROWS) % N_CLASSES
        self.keys = jax.random.split(jax.random.key(2), N_MEMBERS)
        init = jax.jit(jax.vmap(lambda key: self.model.init(key, self.x[0])))
        self.variables = init(jax.random.split(jax.random.key(3), N_MEMBERS))
        # A residual branch that starts at zero would hide an error behind it: move every parameter a little.
        params, state = split_variables(self.variables)
        noise = np.random.default_rng(0)
        self.params = jax.tree.map(lambda p: p + jnp.float32(0.1 * noise.standard_normal(p.shape)), params)
        self.state = state

    def loss(self, params: Any, state: Any, x: Array, key: Array) -> tuple[Array, Any]:
        """One member's mean cross-entropy in training mode, and its new state."""
        output = self.model.apply(join_variables(params, state), x, key=key, train=True)
        logits, state = output if isinstance(output, tuple) else (output, state)
        return -jnp.mean(jax.nn.log_softmax(logits)[jnp.arange(N_ROWS), self.y]), state

    def member(self, tree: Any, i: int) -> Any:
        return jax.tree.map(lambda leaf: leaf[i], tree)


# The wide ResNet takes as long to compile as all others together.
SLOW = ("wide_resnet",)


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in CASES], scope="module"
)
def setting(request: pytest.FixtureRequest) -> Setting:
    return Setting(request.param)


def assert_trees_close(got: Any, expected: Any, tolerance: float = 2e-5) -> None:
    assert jax.tree.structure(got) == jax.tree.structure(expected)
    for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance)


def test_members_start_from_different_weights(setting: Setting) -> None:
    params = jax.tree.leaves(split_variables(setting.variables)[0])
    assert any(float(jnp.abs(leaf[0] - leaf[1]).max()) > 0 for leaf in params)


def test_variables_are_floating_point_arrays_with_a_name_each(setting: Setting) -> None:
    paths = [
        jax.tree_util.keystr(path, simple=True, separator="/")
        for path, leaf in jax.tree_util.tree_flatten_with_path(setting.params)[0]
        if isinstance(leaf, jax.Array) and jnp.issubdtype(leaf.dtype, jnp.floating)
    ]
    assert len(set(paths)) == len(jax.tree.leaves(setting.params))


def test_variables_have_fixed_types_so_that_a_second_step_compiles_nothing(setting: Setting) -> None:
    example = jax.eval_shape(setting.model.init, setting.keys[0], setting.x[0])
    assert not any(leaf.weak_type for leaf in jax.tree.leaves(example))


def test_a_vmapped_member_has_the_gradient_and_state_of_the_member_alone(setting: Setting) -> None:
    def summed(params: Any) -> tuple[Array, tuple[Array, Any]]:
        losses, state = jax.vmap(setting.loss)(params, setting.state, setting.x, setting.keys)
        return jnp.sum(losses), (losses, state)

    gradients, (losses, state) = jax.jit(jax.grad(summed, has_aux=True))(setting.params)
    alone = jax.jit(jax.value_and_grad(setting.loss, has_aux=True))
    for i in range(N_MEMBERS):
        (loss, own_state), own_gradients = alone(
            setting.member(setting.params, i),
            setting.member(setting.state, i),
            setting.x[i],
            setting.keys[i],
        )
        np.testing.assert_allclose(losses[i], loss, rtol=1e-5)
        assert_trees_close(setting.member(gradients, i), own_gradients)
        assert_trees_close(setting.member(state, i), own_state)


def test_prediction_needs_no_key_and_returns_logits_alone(setting: Setting) -> None:
    variables = join_variables(setting.params, setting.state)
    logits = jax.vmap(lambda v, x: setting.model.apply(v, x, key=None, train=False))(variables, setting.x)
    assert logits.shape == (N_MEMBERS, N_ROWS, N_CLASSES)
    with_key = jax.vmap(lambda v, x, key: setting.model.apply(v, x, key=key, train=False))
    np.testing.assert_array_equal(logits, with_key(variables, setting.x, setting.keys))


def test_training_draws_from_the_key_and_from_nothing_else(setting: Setting) -> None:
    @jax.jit
    def loss(key: Array) -> Array:
        params, state = setting.member((setting.params, setting.state), 0)
        return setting.loss(params, state, setting.x[0], key)[0]

    same, again, other = loss(setting.keys[0]), loss(setting.keys[0]), loss(setting.keys[1])
    assert same == again
    assert (same != other) == setting.is_random


def test_state_changes_in_training_and_only_where_there_is_some(setting: Setting) -> None:
    assert bool(setting.state) == setting.has_state
    variables = setting.member(join_variables(setting.params, setting.state), 0)
    train = jax.jit(lambda v, x, key: setting.model.apply(v, x, key=key, train=True))
    output = train(variables, setting.x[0], setting.keys[0])
    assert isinstance(output, tuple) == setting.has_state
    if setting.has_state:
        old, new = setting.member(setting.state, 0), output[1]
        assert jax.tree.structure(new) == jax.tree.structure(old)
        pairs = zip(jax.tree.leaves(old), jax.tree.leaves(new), strict=True)
        assert any(bool(jnp.any(a != b)) for a, b in pairs)


def test_a_scan_of_steps_carries_parameters_and_state(setting: Setting) -> None:
    def step(carry: tuple[Any, Any], key: Array) -> tuple[tuple[Any, Any], Array]:
        params, state = carry

        def summed(params: Any) -> tuple[Array, Any]:
            losses, new_state = jax.vmap(setting.loss)(params, state, setting.x, jax.random.split(key, N_MEMBERS))
            return jnp.sum(losses), new_state

        (loss, state), gradients = jax.value_and_grad(summed, has_aux=True)(params)
        return (jax.tree.map(lambda p, g: p - 0.01 * g, params, gradients), state), loss

    start = (setting.params, setting.state)
    end, losses = jax.jit(lambda carry, keys: jax.lax.scan(step, carry, keys))(start, setting.keys)
    assert jax.tree.structure(end) == jax.tree.structure(start)
    assert bool(jnp.all(jnp.isfinite(losses)))
