"""What the adapters for Linen, NNX and Equinox modules have in common.

Each adapter supplies `init` and one `forward`; how a user's module is told whether it trains, what `apply`
and `features` return, and the sentences for what cannot be adapted are the same for all.
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.errors import InputError
from nu_ensembles.models.model import Model, split_variables

# forward(method, variables, x, key, train) -> (what the method returns, the state after the call)
Forward = Callable[[str, Any, Array, Array | None, bool], tuple[Any, Mapping[str, Any]]]


def adapted(
    init: Callable[..., Any],
    forward: Forward,
    features_method: str | None,
    both_method: str | None = None,
    *,
    made_by: Callable[[], Model],
) -> Model:
    """The model of an adapter's two functions; `made_by` calls the adapter again."""

    def strong_init(key: Array, x: Array) -> Any:
        # A weakly typed leaf turns strong in the first step, and the second would be compiled anew.
        return jax.tree.map(lambda leaf: _cast(jnp.asarray(leaf), jnp.asarray(leaf).dtype), init(key, x))

    def apply(variables: Any, x: Array, *, key: Array | None = None, train: bool = False) -> Any:
        return with_new_state(variables, *forward("__call__", variables, x, key, train), train)

    def with_new_state(variables: Any, logits: Array, new_state: Mapping[str, Any], train: bool) -> Any:
        _, state = split_variables(variables)
        if not (train and state):
            return logits
        # A loop's carried state must not change its dtype, whatever the dtype of the inputs.
        return logits, jax.tree.map(lambda new, old: _cast(new, old.dtype), dict(new_state), state)

    if features_method is None:
        return Model(strong_init, apply, made_by=made_by)

    def features(variables: Any, x: Array, *, key: Array | None = None, train: bool = False) -> Array:
        return forward(features_method, variables, x, key, train)[0]

    if both_method is None:
        return Model(strong_init, apply, features, made_by=made_by)

    def apply_with_features(
        variables: Any, x: Array, *, key: Array | None = None, train: bool = False
    ) -> tuple[Any, Array]:
        (logits, found), new_state = forward(both_method, variables, x, key, train)
        return with_new_state(variables, logits, new_state, train), found

    return Model(strong_init, apply, features, apply_with_features=apply_with_features, made_by=made_by)


def _cast(leaf: Array, dtype: Any) -> Array:
    return leaf if jnp.issubdtype(dtype, jax.dtypes.extended) else leaf.astype(dtype)


def accepted_arguments(method: Callable[..., Any]) -> frozenset[str]:
    """Names that the method takes as keyword arguments."""
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(method).parameters.values()
    return frozenset(parameter.name for parameter in parameters if parameter.kind in kinds)


def train_flags(accepted: frozenset[str], train: bool, has_key: bool) -> dict[str, bool]:
    """Those of the flags in use that a method takes, with their values.

    Without a key nothing random may happen, so `deterministic` is then set in training, too.
    """
    flags = {
        "train": train,
        "training": train,
        "is_training": train,
        "deterministic": not (train and has_key),
        "use_running_average": not train,
        "inference": not train,
    }
    return {name: value for name, value in flags.items() if name in accepted}


def check_method(module: Any, features_method: str | None) -> None:
    """Refuses a `features_method` that the module does not have."""
    if features_method is not None and not callable(getattr(module, features_method, None)):
        raise InputError(f"{type(module).__name__} has no method {features_method!r} to take features from.")


def always(module: Any, example: str) -> Callable[[Any], Any]:
    """A factory that returns the given module whatever the key; warns those who did not mean that."""
    warnings.warn(
        f"Every member will start from this module's own weights; pass a factory such as {example} for "
        "independent initialisations (or one that returns this module, to say that this is meant).",
        UserWarning,
        stacklevel=3,
    )
    return lambda key: module
