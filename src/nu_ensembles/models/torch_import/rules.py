"""The table of rules: what every operation of an imported PyTorch network is in JAX.

A rule is a pure function with the arguments, their order and their defaults of the operation's schema; tensors come as
JAX arrays, sizes as ints and dtypes as JAX's. Rules are written for one member and have no axis of members.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from nu_ensembles.errors import InputError

Function = TypeVar("Function", bound=Callable[..., Any])
# From arguments and options, of which some may be images with their channels last; None where it does not apply.
Images = Callable[[Sequence[Any], dict[str, Any]], Any]


@dataclasses.dataclass(frozen=True)
class Rule:
    """How an operation is computed; `draws` says that it takes `key=`, None where nothing random may happen.

    `images` computes the same, but takes and gives images as `channels_last.py` has them.
    """

    compute: Callable[..., Any]
    draws: bool = False
    images: Images | None = None


RULES: dict[str, Rule] = {}


def torch_rule(*names: str, draws: bool = False) -> Callable[[Function], Function]:
    """Registers a function as the rule of operations, in place of a rule that they may have already::

        @nu.models.torch_rule("aten.special_i0.default")
        def bessel(x):
            return jax.scipy.special.i0(x)

    Args:
      names: as the error about operations without a rule gives them, `"namespace.operation.overload"`.
      draws: the function draws at random and takes a keyword argument `key`, a key of its own or None, where it
        returns what is expected instead.
    """
    for name in names:
        if not isinstance(name, str) or "." not in name:
            raise InputError(f"torch_rule takes names such as 'aten.special_i0.default', not {name!r}.")

    def register(function: Function) -> Function:
        for name in names:
            RULES[name] = Rule(function, draws)
        return function

    return register
