"""A network around another: what some methods need when they train or predict becomes part of the network itself.

Such a network is saved as the one inside it and the name of what is around it, predicts and is exported like any other,
and needs nothing of the rooms behind it. The variables of one that is made to predict are those of the network inside,
and what the wrapper adds:

  {"params": of the network inside, "state": its mutable state, …}
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.models.image_maps import MAPS
from nu_ensembles.models.model import Model, join_variables, logits_and_features, split_variables
from nu_ensembles.models.random_features import random_features
from nu_ensembles.models.rank_one import rank_one


@dataclasses.dataclass(frozen=True)
class WrapperSpec:
    """What is around a network.

    Attributes:
      name: one of `WRAPPERS`.
      options: `(option, value)` pairs in alphabetical order, values hashable.
    """

    name: str
    options: tuple[tuple[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """As JSON knows it: tuples become lists."""
        options = {key: list(value) if isinstance(value, tuple) else value for key, value in self.options}
        return {"name": self.name, "options": options}


@dataclasses.dataclass(frozen=True)
class WrappedModel(Model):
    """A `Model` that has another inside; made by `wrapped`."""

    inner: Model | None = None
    wrapper: WrapperSpec | None = None

    def __reduce__(self) -> tuple[Callable[..., Model], tuple[Any, ...]]:
        return _again, (self.inner, self.wrapper)


def wrapped(inner: Model, name: str, **options: Any) -> WrappedModel:
    """A network around another; equal calls return the same object, and with it the compiled programs.

    Args:
      inner: the network inside.
      name: one of `WRAPPERS`.
      **options: of that wrapper.
    """
    if name not in WRAPPERS:
        raise unknown_name("wrapper of a network", name, WRAPPERS)
    hashable = {key: tuple(value) if isinstance(value, list) else value for key, value in options.items()}
    return _cached(inner, WrapperSpec(name, tuple(sorted(hashable.items()))))


def unwrapped(model: Model) -> tuple[Model, WrapperSpec | None]:
    """The network inside and what is around it; a plain network and None.

    Args:
      model: any network.
    """
    if isinstance(model, WrappedModel) and model.inner is not None:
        return model.inner, model.wrapper
    return model, None


def around(params: Any, state: Mapping[str, Any], **added: Any) -> tuple[Any, dict[str, Any]]:
    """Parameters and state of a wrapped network, from those of the network inside.

    Args:
      params: what was trained.
      state: the other variables.
      **added: the wrapper's own.
    """
    return {"params": params}, {"state": dict(state), **added}


def inside(variables: Any) -> Any:
    """The variables of the network inside, from those of the wrapped one."""
    return join_variables(variables["params"], variables["state"])


def _again(inner: Model, wrapper: WrapperSpec) -> Model:
    return wrapped(inner, wrapper.name, **dict(wrapper.options))


@functools.cache
def _cached(inner: Model, wrapper: WrapperSpec) -> WrappedModel:
    model = WRAPPERS[wrapper.name](inner, **dict(wrapper.options))
    passes = model.init, model.apply, model.features, None, model.apply_with_features
    return WrappedModel(*passes, inner=inner, wrapper=wrapper)


def probit(inner: Model) -> Model:
    """Logits divided by sqrt(1 + pi/8 v), v their variance under a Gaussian over the last layer.

    MacKay, *The Evidence Framework Applied to Classification Networks*, 1992. The wrapper's own variable `covariance`,
    `[C, F + 1, F + 1]`, is that of each class's weights and bias.
    """

    def init(key: Array, x: Array) -> Any:
        variables = inner.init(key, x)
        both = functools.partial(logits_and_features, inner, key=None, train=False)
        logits, features = jax.eval_shape(both, variables, x)
        size = features.shape[-1] + 1
        params, state = around(*split_variables(variables), covariance=jnp.zeros((logits.shape[-1], size, size)))
        return {**params, **state}

    def apply(variables: Any, x: Array, *, key: Array | None, train: bool) -> Array:
        if train:
            raise InputError("A network with Laplace's predictive is made after its training; train the one inside.")
        logits, features = logits_and_features(inner, inside(variables), x, key=key, train=False)
        with_one = jnp.concatenate([features, jnp.ones_like(features[:, :1])], axis=1)
        variance = jnp.einsum("bf,cfg,bg->bc", with_one, variables["covariance"], with_one)
        return logits / jnp.sqrt(1 + jnp.pi / 8 * jnp.maximum(variance, 0))

    return Model(init, apply)


def transformed(inner: Model, transformations: tuple[str, ...]) -> Model:
    """A network that sees a transformation of each row; its own variable `transformation` is the number of that."""
    for each in transformations:
        if each not in MAPS:
            raise unknown_name("transformation", each, MAPS)

    def init(key: Array, x: Array) -> Any:
        params, state = around(*split_variables(inner.init(key, x)), transformation=jnp.zeros((), jnp.int32))
        return {**params, **state}

    def apply(variables: Any, x: Array, *, key: Array | None, train: bool) -> Any:
        if train:
            raise InputError("A network with a transformation is made after its training; train the one inside.")
        seen = jax.lax.switch(variables["transformation"], [MAPS[each] for each in transformations], x)
        return inner.apply(inside(variables), seen, key=key, train=False)

    return Model(init, apply)


def sngp(inner: Model, **options: Any) -> Model:
    """A Gaussian process in place of the last layer, with the probit predictive around it."""
    return probit(random_features(inner, **options))


WRAPPERS: dict[str, Callable[..., Model]] = {
    "probit": probit,
    "transformed": transformed,
    "rank_one": rank_one,
    "random_features": random_features,
    "sngp": sngp,
}
