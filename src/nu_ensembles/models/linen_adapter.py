"""A Flax Linen module as a `Model`, mutable collections (batch statistics and the like) included."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax
from flax.core import unfreeze
from jax import Array

from nu_ensembles.checks import checked, shown
from nu_ensembles.errors import InputError
from nu_ensembles.models.adapting import accepted_arguments, adapted, check_method, train_flags
from nu_ensembles.models.model import Model, split_variables


@checked
def from_linen(
    module: nn.Module,
    *,
    features_method: str | None = None,
    both_method: str | None = None,
    rng_streams: Sequence[str] = ("dropout",),
    **apply_options: Any,
) -> Model:
    """Wraps a Linen module whose `__call__` takes a batch `x[B, …]` and returns logits `[B, C]`.

    Of the arguments `train`, `training`, `is_training`, `deterministic` and `use_running_average` those that
    `__call__` takes are set in training and prediction. All collections but `"params"` are mutable in
    training.

    Args:
      module: an instance, such as `Net(n_classes=10)`.
      features_method: name of a method that takes what `__call__` takes and returns what enters the last
        layer, `[B, F]`.
      both_method: beside `features_method`, name of one that returns `(logits, features)`; ways to train that use
        both then need one backward pass instead of two.
      rng_streams: names under which the module asks for randomness while training.
      **apply_options: further keyword arguments of `__call__`, the same in every call.
    """
    if not isinstance(module, nn.Module):
        raise InputError(
            "from_linen takes an instance of a flax.linen.Module, such as from_linen(Net(n_classes=10)), "
            f"not {shown(module)}."
        )
    check_method(module, features_method)
    check_method(module, both_method)
    arguments = (module, features_method, both_method, tuple(rng_streams), tuple(sorted(apply_options.items())))
    try:
        hash(arguments)
    except TypeError:
        return _model(*arguments)
    # Linen modules are values: an equal module gives the same Model, and a second fit compiles nothing.
    return _cached(*arguments)


def _model(
    module: nn.Module,
    features_method: str | None,
    both_method: str | None,
    rng_streams: tuple[str, ...],
    apply_options: tuple[tuple[str, Any], ...],
) -> Model:
    def arguments(method: str, train: bool, has_key: bool) -> dict[str, Any]:
        flags = train_flags(accepted_arguments(getattr(type(module), method)), train, has_key)
        return {**flags, **dict(apply_options)}

    def init(key: Array, x: Array) -> dict[str, Any]:
        rngs = {"params": key, **_rngs(rng_streams, jax.random.fold_in(key, 1))}
        # Training mode, so that whatever only training uses exists as well.
        return dict(unfreeze(module.init(rngs, x, **arguments("__call__", train=True, has_key=True))))

    def forward(method: str, variables: Any, x: Array, key: Array | None, train: bool) -> tuple[Any, Any]:
        _, state = split_variables(variables)
        output, updated = module.apply(
            variables,
            x,
            rngs=_rngs(rng_streams, key),
            method=method,
            mutable=list(state) if train else [],
            **arguments(method, train, key is not None),
        )
        return output, {**state, **unfreeze(updated)}

    names = {"features_method": features_method, "both_method": both_method, "rng_streams": rng_streams}
    again = functools.partial(from_linen, module, **names, **dict(apply_options))
    return adapted(init, forward, features_method, both_method, made_by=again)


_cached = functools.cache(_model)


def _rngs(streams: tuple[str, ...], key: Array | None) -> dict[str, Array]:
    """One key a stream; the first stream's is the given key itself."""
    if key is None:
        return {}
    return {name: jax.random.fold_in(key, i) if i else key for i, name in enumerate(streams)}
