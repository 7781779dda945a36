"""The dropout of a network: its rate where it is an option, and whether there is any."""

from __future__ import annotations

import inspect

import jax
import jax.numpy as jnp

from nu_ensembles.errors import InputError
from nu_ensembles.models.inspect import equations
from nu_ensembles.models.model import Model, split_variables
from nu_ensembles.models.registry import BUILDERS, from_spec


def dropout_rate(model: Model) -> float | None:
    """The dropout rate that a built-in network was made with; None where its builder has no such option."""
    return None if model.spec is None else dict(model.spec.options).get("dropout")


def with_dropout(model: Model, rate: float) -> Model:
    """The same built-in network with another dropout rate; its parameters have the same names and shapes.

    Raises:
      InputError: the network has no such option.
    """
    if dropout_rate(model) == rate:
        return model
    if model.spec is None:
        raise InputError(
            "The dropout rate of a network of your own cannot be set from outside; leave the rate out to use the "
            "network's own dropout, or take a built-in network."
        )
    if dropout_rate(model) is None:
        able = [name for name, build in BUILDERS.items() if "dropout" in inspect.signature(build).parameters]
        raise InputError(
            f"The network {model.spec.name!r} has no dropout; use {' or '.join(map(repr, able))}, or a network of your "
            "own that has some."
        )
    fields = model.spec.to_dict()
    return from_spec({**fields, "options": {**fields["options"], "dropout": rate}})


def draws_at_random(model: Model, row_shape: tuple[int, ...]) -> bool:
    """Whether the network draws random numbers in training mode, as dropout does; found without computing anything."""
    x = jax.ShapeDtypeStruct((1, *row_shape), jnp.float32)
    key = jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32"))
    variables = jax.eval_shape(model.init, key, x)
    closed = jax.make_jaxpr(lambda v, x, key: model.apply(v, x, key=key, train=True))(variables, x, key)
    # Adapters split keys whether or not a layer uses them; only a draw takes bits, or a key apart to make its own.
    draws = ("random_bits", "threefry2x32", "random_unwrap")
    return any(equation.primitive.name in draws for equation in equations(closed.jaxpr))


def has_mutable_state(model: Model, row_shape: tuple[int, ...]) -> bool:
    """Whether a forward pass in training mode updates anything, as batch normalisation does."""
    x = jax.ShapeDtypeStruct((1, *row_shape), jnp.float32)
    key = jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32"))
    return bool(jax.tree.leaves(split_variables(jax.eval_shape(model.init, key, x))[1]))
