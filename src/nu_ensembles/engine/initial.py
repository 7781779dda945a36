"""How lanes start: variables drawn from their keys, the optimiser's state, and the shapes of both beforehand."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import optax
from jax import Array

from nu_ensembles.engine.fast.packing import pack
from nu_ensembles.engine.optimiser import optimiser
from nu_ensembles.engine.program import LaneState
from nu_ensembles.engine.step import AUXILIARY, INITIALISATION, lane_key
from nu_ensembles.methods import Method
from nu_ensembles.models import Model, logits_and_features, split_variables, variable_shapes


def initial_state(
    model: Model,
    custom: optax.GradientTransformation | None,
    dtype: str,
    keys: Array,
    learning_rates: Array,
    weight_decays: Array,
    example: Array,
) -> LaneState:
    """Freshly initialised lanes; the arguments are those of `Program` and `Lanes` that matter here, and no others.

    Args:
      example: a row or more of network input, for the shapes.
    """

    def one_lane(key: Array, learning_rate: Array, weight_decay: Array) -> tuple[Any, Any, Any]:
        variables = model.init(lane_key(key, INITIALISATION), example)
        return _fresh_lane(custom, dtype, variables, learning_rate, weight_decay)

    params, model_state, optimiser_state = jax.vmap(one_lane)(keys, learning_rates, weight_decays)
    return LaneState(params, model_state, optimiser_state, jnp.full(keys.shape, -1, jnp.int32))


def initial_state_shapes(
    model: Model, custom: optax.GradientTransformation | None, dtype: str, n_lanes: int, example: Array
) -> LaneState:
    """The shapes of what `initial_state` gives, sooner: nothing is traced of a network whose shapes are known."""
    variables = variable_shapes(model, example.shape[1:], example.dtype)
    number = jax.ShapeDtypeStruct((), jnp.float32)
    fresh = jax.eval_shape(partial(_fresh_lane, custom, dtype), variables, number, number)
    params, model_state, optimiser_state = stacked_shapes(fresh, n_lanes)
    failed_at: Any = jax.ShapeDtypeStruct((n_lanes,), jnp.int32)
    return LaneState(params, model_state, optimiser_state, failed_at)


def stacked_shapes(shapes: Any, n_lanes: int) -> Any:
    """The shapes of so many lanes' arrays, stacked."""
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct((n_lanes, *leaf.shape), leaf.dtype), shapes)


def _fresh_lane(
    custom: optax.GradientTransformation | None,
    dtype: str,
    variables: Any,
    learning_rate: Array,
    weight_decay: Array,
) -> tuple[Any, Any, Any]:
    """Parameters, mutable state and the optimiser's state of a lane whose variables were drawn."""
    params, state = split_variables(variables)
    params = jax.tree.map(lambda leaf: leaf.astype(dtype), params)
    # AdamW sees the parameters as the loop carries them (see `packing.py`).
    seen: Any = pack(params) if custom is None else params
    return params, state, optimiser(custom, learning_rate, weight_decay).init(seen)


def initial_auxiliary(model: Model, dtype: str, keys: Array, method: Method, example: Array) -> tuple[Any, Any]:
    """The method's own parameters, freshly drawn, and the state of their optimiser; empty trees for most methods.

    Args:
      method: with its traced hyper-parameters stacked, each `[R]`.
    """

    n_features = n_classes = 0
    if method.uses_features:
        variables = variable_shapes(model, example.shape[1:], example.dtype)
        both = partial(logits_and_features, model, key=None, train=False)
        logits, features = jax.eval_shape(both, variables, example)
        n_features, n_classes = features.shape[-1], logits.shape[-1]

    def one_lane(key: Array, method: Any) -> tuple[Any, Any]:
        parameters = method.auxiliary(lane_key(key, AUXILIARY), n_features, n_classes)
        parameters = jax.tree.map(lambda leaf: leaf.astype(dtype), parameters)
        return parameters, method.auxiliary_optimiser().init(parameters)

    return jax.vmap(one_lane)(keys, method)
