"""What a network is made of, found by reading its jaxpr; nothing is computed or compiled.

The engine's plans differ for convolutions (on the CPU they must stay out of `lax.scan` and `vmap`).
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax.extend.core import ClosedJaxpr, Jaxpr, JaxprEqn

from nu_ensembles.checks import checked, shown
from nu_ensembles.errors import InputError
from nu_ensembles.models.model import Model, join_variables, logits_and_features, split_variables

# Values of a row: beyond this, sizes are no longer told apart.
LARGEST_ROW = 1 << 53


@checked
def variable_shapes(model: Model, row_shape: tuple[int, ...], dtype: Any = jnp.float32) -> Any:
    """The shapes of a network's variables.

    Args:
      model: the network.
      row_shape: the shape of one input row.
      dtype: of its entries.
    """
    return _variable_shapes(model, check_shape(row_shape), check_dtype(dtype), _x64())


def require_features(model: Model, row_shape: tuple[int, ...]) -> tuple[int, int]:
    """How many features enter a network's last layer, and how many logits leave it.

    Args:
      model: the network.
      row_shape: the shape of one input row.

    Raises:
      InputError: the network does not say what enters its last layer.
    """
    x = jax.ShapeDtypeStruct((2, *row_shape), jnp.float32)
    both = functools.partial(logits_and_features, model, key=None, train=False)
    logits, features = jax.eval_shape(both, variable_shapes(model, row_shape), x)
    return features.shape[-1], logits.shape[-1]


@checked
def uses_convolution(model: Model, x_shape: tuple[int, ...], dtype: Any = jnp.float32) -> bool:
    """Whether the network's prediction convolves anywhere.

    Args:
      model: the network.
      x_shape: of a batch, `[B, …]`.
      dtype: of its entries.
    """
    return read_network(model, x_shape[1:], dtype).n_convolutions > 0


class Reading(NamedTuple):
    """What a network is found to do with two rows when it predicts.

    output: what it returns, as shapes.
    n_convolutions: how often it convolves; what stands in nested functions and loops counts once.
    """

    output: Any
    n_convolutions: int


def read_network(model: Model, row_shape: tuple[int, ...], dtype: Any = jnp.float32) -> Reading:
    """Traces the network's prediction once; asked again, the answer is at hand.

    Args:
      row_shape: of an input row; dtype: of its entries.
    """
    return _read_network(model, check_shape(row_shape), check_dtype(dtype), _x64())


def check_shape(row_shape: Sequence[int]) -> tuple[int, ...]:
    """The shape of a row that memory could hold."""
    try:
        shape = tuple(operator.index(axis) for axis in row_shape)
    except TypeError:
        shape = ()
    if not shape or min(shape) < 1 or math.prod(shape) > LARGEST_ROW:
        raise InputError(f"The shape of a row has an axis or more, of at least one value, unlike {shown(row_shape)}.")
    return shape


def check_dtype(dtype: Any) -> Any:
    """What JAX knows as a type of numbers."""
    try:
        found = jnp.dtype(dtype)
    except Exception:  # NumPy asks foreign types, which raise what they like
        found = None
    if found is None or not (jnp.issubdtype(found, jnp.number) or found.kind == "b"):
        raise InputError(f"dtype must be a type of numbers, such as 'float32', not {shown(dtype)}.")
    return found


def _x64() -> bool:
    settings: Any = jax.config
    return settings.jax_enable_x64


# Both are asked for again and again, by plans, estimates and predictions. A network's dtypes may hang on JAX's setting.
@functools.lru_cache(maxsize=64)
def _variable_shapes(model: Model, row_shape: tuple[int, ...], dtype: Any, x64: bool) -> Any:
    key = jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32"))
    return jax.eval_shape(model.init, key, jax.ShapeDtypeStruct((1, *row_shape), dtype))


@functools.lru_cache(maxsize=64)
def _read_network(model: Model, row_shape: tuple[int, ...], dtype: Any, x64: bool) -> Reading:
    # Parameters and state apart and together again, as they are trained.
    variables = join_variables(*split_variables(variable_shapes(model, row_shape, dtype)))
    x = jax.ShapeDtypeStruct((2, *row_shape), dtype)

    def predicted(variables: Any, x: Any) -> Any:
        return model.apply(variables, x, key=None, train=False)

    closed, output = jax.make_jaxpr(predicted, return_shape=True)(variables, x)
    n = sum(equation.primitive.name == "conv_general_dilated" for equation in equations(closed.jaxpr))
    return Reading(output, n)


def equations(jaxpr: Jaxpr) -> Iterator[JaxprEqn]:
    """All operations of a jaxpr and of those that it carries (jit, scan, cond, custom_vjp, remat)."""
    for equation in jaxpr.eqns:
        yield equation
        for inner in _jaxprs(tuple(equation.params.values())):
            yield from equations(inner)


def _jaxprs(value: Any) -> Iterator[Jaxpr]:
    if isinstance(value, Jaxpr):
        yield value
    elif isinstance(value, ClosedJaxpr):
        yield value.jaxpr
    elif isinstance(value, (tuple, list)):
        for each in value:
            yield from _jaxprs(each)
