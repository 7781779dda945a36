"""A Keras 3 network on the JAX backend as a `Model`.

Keras draws from counters in the network: the engine's key takes their place in every call, or all members would share
their masks. A weight that two calls of the factory make alike (zeros, or what was loaded from a file) starts as it is;
one that they make differently is drawn by its own initialiser from the member's key.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.checks import checked
from nu_ensembles.errors import InputError, MissingExtraError
from nu_ensembles.models.adapting import adapted
from nu_ensembles.models.model import Model
from nu_ensembles.models.seeding import seeded

# What Keras calls the state of a layer's random numbers: a seed and a counter.
COUNTER = "seed_generator_state"


@checked
def from_keras(factory: Callable[[], Any]) -> Model:
    """Turns a Keras network into a model; `KERAS_BACKEND=jax` must be set before Keras is first imported.

    Variables are named by their number and Keras' own name, `"0.kernel"`. What Keras does not train is state.
    Penalties that layers add to the loss are left out: the methods have weight decay of their own.

    Args:
      factory: `() -> keras.Model`, built (give it an `Input`), whose last layer has no softmax: it returns logits.
    """
    try:
        import keras  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError("models.from_keras", "keras") from error
    if keras.backend.backend() != "jax":
        raise InputError(
            f"Keras runs on {keras.backend.backend()} here; set the environment variable KERAS_BACKEND=jax before "
            "Keras is first imported."
        )
    if isinstance(factory, keras.Model) or not callable(factory):
        raise InputError(
            "from_keras takes a factory such as lambda: keras.Sequential([…]), which is called for every new network."
        )
    network = _made(factory, 0)
    trained = list(network.trainable_variables)
    counters = [each for each in network.non_trainable_variables if each.path.endswith(COUNTER)]
    state = [each for each in network.non_trainable_variables if not each.path.endswith(COUNTER)]
    named = {id(each): f"{number}.{each.name}" for number, each in enumerate((*trained, *state))}
    starts = _starts(factory, network, [*trained, *state])

    def init(key: Array, x: Array) -> dict[str, Any]:
        drawn = [start(jax.random.fold_in(key, number)) for number, start in enumerate(starts)]
        values = dict(zip(named.values(), drawn, strict=True))
        params = {named[id(each)]: values[named[id(each)]] for each in trained}
        others = {named[id(each)]: values[named[id(each)]] for each in state}
        return {"params": params, "state": others} if others else {"params": params}

    def forward(method: str, variables: Any, x: Array, key: Array | None, train: bool) -> tuple[Any, Any]:
        if train and counters and key is None:
            raise InputError("A Keras network with dropout needs a key in training.")
        others = variables.get("state", {})
        drawn = iter(range(len(counters)))
        kept = [
            _counter(key, next(drawn)) if each.path.endswith(COUNTER) else others[named[id(each)]]
            for each in network.non_trainable_variables
        ]
        params = [variables["params"][named[id(each)]] for each in trained]
        output, new = network.stateless_call(params, kept, x, training=train)
        pairs = zip(network.non_trainable_variables, new, strict=True)
        updated = {named[id(each)]: value for each, value in pairs if id(each) in named}
        return output, {"state": updated} if updated else {}

    return adapted(init, forward, None, made_by=functools.partial(from_keras, factory))


def _made(factory: Callable[[], Any], seed: int) -> Any:
    import keras  # pyright: ignore[reportMissingImports]

    with seeded(seed):
        network = factory()
    if not isinstance(network, keras.Model) or not network.built:
        raise InputError(
            "from_keras takes a factory that returns a built keras.Model: begin it with keras.Input(shape)."
        )
    if getattr(network.layers[-1], "activation", None) in (keras.activations.softmax, keras.activations.sigmoid):
        raise InputError("The network must return logits: leave out the softmax of its last layer.")
    return network


def _starts(factory: Callable[[], Any], network: Any, variables: list[Any]) -> list[Callable[[Array], Array]]:
    """How each variable starts: a function of a key."""
    import keras  # pyright: ignore[reportMissingImports]

    other = _made(factory, 1)
    others = [*other.trainable_variables, *(v for v in other.non_trainable_variables if not v.path.endswith(COUNTER))]
    if [each.shape for each in variables] != [each.shape for each in others]:
        raise InputError("The factory must return the same network every time, but for its weights.")
    # Inside the scope variables are not drawn yet, and still know how they are to be.
    with keras.StatelessScope(), seeded(0):
        unborn = factory()
        again = [
            *unborn.trainable_variables,
            *(v for v in unborn.non_trainable_variables if not v.path.endswith(COUNTER)),
        ]
        initialisers = [getattr(each, "_initializer", None) for each in again]
    found = []
    for variable, second, initialiser in zip(variables, others, initialisers, strict=True):
        value = np.asarray(variable.value)
        if np.array_equal(value, np.asarray(second.value)):
            found.append(functools.partial(_as_it_is, value))
        elif _draws(initialiser, value):
            found.append(functools.partial(_drawn, initialiser, value.shape, value.dtype))
        else:
            raise InputError(
                f"The start of {variable.path} hangs on chance that cannot be taken from a key; give it an initialiser "
                "of keras.initializers."
            )
    return found


def _draws(initialiser: Any, value: np.ndarray) -> bool:
    """Whether an initialiser, which has the seed that a value was drawn with, draws just that."""
    return hasattr(initialiser, "seed") and np.array_equal(
        np.asarray(initialiser(value.shape, value.dtype.name)), value
    )


def _as_it_is(value: np.ndarray, key: Array) -> Array:
    return jnp.asarray(value)


def _drawn(initialiser: Any, shape: tuple[int, ...], dtype: Any, key: Array) -> Array:
    own = copy.copy(initialiser)
    own.seed = _key_data(key)
    return own(shape, dtype=dtype.name)


def _counter(key: Array | None, number: int) -> Array:
    """The state of a layer's random numbers in one call, uint32 `[2]`."""
    return jnp.zeros(2, jnp.uint32) if key is None else _key_data(jax.random.fold_in(key, number))


def _key_data(key: Array) -> Array:
    return jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
