"""The network in training mode as a loss sees it: inputs in, logits out, and what more some losses ask of it.

The engine's passes are all three of these; a loss names the one that it needs.
"""

from __future__ import annotations

from typing import Any, Protocol

from jax import Array


class Forward(Protocol):
    """The member's network in training mode: `forward(x, u)` -> logits of x, logits of u, in one pass."""

    def __call__(self, *inputs: Array) -> tuple[Array, ...]: ...


class FeatureForward(Forward, Protocol):
    """What the engine hands to a method that `uses_features`."""

    def with_features(self, x: Array) -> tuple[Array, Array]:
        """Logits `[B, C]` and what enters the last layer, `[B, F]`, in one pass.

        Args:
          x: inputs `[B, …]`.
        """
        ...


class ParameterForward(Forward, Protocol):
    """What the engine hands to every method, for those that look at the weights themselves.

    Attributes:
      params: the trained variables; under a joint method every leaf has a leading axis of members.
    """

    params: Any

    def at(self, params: Any) -> ParameterForward:
        """The same networks, with the same dropout masks, at other parameters; their mutable state is not kept.

        Args:
          params: as `params`.
        """
        ...
