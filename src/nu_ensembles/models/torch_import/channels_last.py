"""Images inside an imported network lie with their channels last, though PyTorch counts them second.

So convolutions want them, and copies between the two orders cost: a gradient of two LeNets with batches of 64 (those
of `benchmarks/imported_networks.py`) took 127 ms of a core with the copies, 115 without, and 101 in Flax. What a
network gives to any other operation is put in order first.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.models.torch_import.rules import RULES, Images, Rule


@dataclasses.dataclass(frozen=True)
class ChannelsLast:
    """An array `[B, …, C]` that stands for `[B, C, …]`."""

    array: Array


def computed(rule: Rule, arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    """What a rule makes of arguments among which there may be images with their channels last."""
    if rule.images is not None:
        found = rule.images(arguments, options)
        if found is not None:
            return found
    return rule.compute(*map(in_order, arguments), **{name: in_order(value) for name, value in options.items()})


def in_order(value: Any) -> Any:
    """With the channels second, as PyTorch counts them."""
    if isinstance(value, ChannelsLast):
        return jnp.moveaxis(value.array, -1, 1)
    return [in_order(each) for each in value] if isinstance(value, (list, tuple)) else value


def of_images(*names: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a rule that takes images `[B, …, C]` first and gives such images, or a tuple that begins with them."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        def compute(x: Array, *others: Any, **options: Any) -> Any:
            return in_order(_marked(function(jnp.moveaxis(x, 1, -1), *others, **options)))

        def images(arguments: Sequence[Any], options: dict[str, Any]) -> Any:
            x, *others = arguments
            last = x.array if isinstance(x, ChannelsLast) else jnp.moveaxis(x, 1, -1)
            return _marked(function(last, *map(in_order, others), **options))

        for name in names:
            RULES[name] = Rule(compute, images=images)
        return function

    return register


def _marked(result: Any) -> Any:
    if isinstance(result, tuple):
        return (ChannelsLast(result[0]), *result[1:])
    return ChannelsLast(result)


def number_by_number(names: Sequence[str]) -> None:
    """Says of rules that they work on every number alone, whatever the order of the axes."""
    for name in names:
        RULES[name] = dataclasses.replace(RULES[name], images=_alike(RULES[name].compute))


def _alike(compute: Callable[..., Any]) -> Images:
    def images(arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        dimensions = {each.array.ndim for each in arguments if isinstance(each, ChannelsLast)}
        others = [each.ndim for each in arguments if isinstance(each, (Array, np.ndarray))]
        # Tensors among the options are too rare to be worth a thought.
        if len(dimensions) != 1 or any(isinstance(each, (ChannelsLast, Array)) for each in options.values()):
            return None
        (ndim,) = dimensions
        if any(each > ndim for each in others):
            return None
        return ChannelsLast(compute(*(_turned(each, ndim) for each in arguments), **options))

    return images


def _turned(value: Any, ndim: int) -> Any:
    """An argument beside images with channels last."""
    if isinstance(value, ChannelsLast):
        return value.array
    if not isinstance(value, (Array, np.ndarray)) or value.ndim == 0:
        return value
    return jnp.moveaxis(value.reshape(*(1,) * (ndim - value.ndim), *value.shape), 1, -1)


def _joined(arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    tensors, dim = arguments[0], arguments[1] if len(arguments) > 1 else options.get("dim", 0)
    if not any(isinstance(each, ChannelsLast) for each in tensors):
        return None
    parts = [each.array if isinstance(each, ChannelsLast) else each for each in tensors]
    ndim = max(each.ndim for each in parts)
    if any(each.ndim != ndim for each in parts):
        return None
    turned = [_turned(each, ndim) for each in tensors]
    return ChannelsLast(jnp.concatenate(turned, axis=_place(dim, ndim)))


def _place(dim: int, ndim: int) -> int:
    """Where an axis of PyTorch's is with the channels last."""
    dim %= ndim
    return dim if dim == 0 else ndim - 1 if dim == 1 else dim - 1


def _padded(compute: Callable[..., Any]) -> Images:
    def images(arguments: Sequence[Any], options: dict[str, Any]) -> Any:
        x, pad, *others = arguments
        if not isinstance(x, ChannelsLast) or len(pad) > 2 * (x.array.ndim - 2):
            return None
        # Nothing is added to the channels, which come last here.
        return ChannelsLast(compute(x.array, [0, 0, *pad], *others, **options))

    return images


def _taken(arguments: Sequence[Any], options: dict[str, Any]) -> Any:
    values, place = arguments
    return values[place]


def register() -> None:
    """Rules that let images be as they are, once all rules are there."""
    for name in ("aten.cat.default", "aten.concat.default"):
        RULES[name] = dataclasses.replace(RULES[name], images=_joined)
    for name in ("aten.constant_pad_nd.default", "aten.pad.default"):
        RULES[name] = dataclasses.replace(RULES[name], images=_padded(RULES[name].compute))
    RULES["operator.getitem"] = dataclasses.replace(RULES["operator.getitem"], images=_taken)
