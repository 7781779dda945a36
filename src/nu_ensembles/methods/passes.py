"""The network as a loss sees it: in training mode, with the keys and the mutable state of the step.

These are the `Forward` of `forward.py`: one for a member, one for all members of a joint method.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import accumulate, pairwise
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.models import Model, join_variables, logits_and_features


class NetworkPass:
    """The network of one lane (or, under `jax.vmap`, of all) in training mode, keeping its mutable state.

    A method may have several passes in one step: each folds its number into the step's key.

    Args:
      first_key: that of the first pass, where it is at hand.
    """

    def __init__(self, model: Model, params: Any, state: Any, key: Array, first_key: Array | None = None) -> None:
        self.model, self.params, self.state, self.key = model, params, state, key
        self.first_key = first_key
        self.n_passes = 0

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        """Logits of each input. They go through the network together: one large pass beats several small ones."""
        x = inputs[0] if len(inputs) == 1 else jnp.concatenate(inputs)
        variables = join_variables(self.params, self.state)
        logits = self._logits(self.model.apply(variables, x, key=self._next_key(), train=True))
        ends = accumulate((len(each) for each in inputs), initial=0)
        return tuple(logits[start:end] for start, end in pairwise(ends))

    def with_features(self, x: Array) -> tuple[Array, Array]:
        """Logits, and what enters the last layer."""
        variables = join_variables(self.params, self.state)
        output, features = logits_and_features(self.model, variables, x, key=self._next_key(), train=True)
        return self._logits(output), features

    def at(self, params: Any) -> NetworkPass:
        """The same network and keys at other parameters."""
        return NetworkPass(self.model, params, self.state, self.key, self.first_key)

    def _next_key(self) -> Array:
        number, self.n_passes = self.n_passes, self.n_passes + 1
        if number == 0 and self.first_key is not None:
            return self.first_key
        return jax.random.fold_in(self.key, number)

    def _logits(self, output: Any) -> Array:
        """The logits of what the model returned; the state that may come with them is kept."""
        if not isinstance(output, tuple):
            return output
        logits, self.state = output
        return logits


class JointPass:
    """The networks of all lanes in training mode: inputs `[K, B, …]` -> logits `[K, B, C]`."""

    def __init__(self, model: Model, params: Any, state: Any, keys: Array) -> None:
        self.model, self.params, self.state, self.keys = model, params, state, keys
        self.n_passes = 0

    def __call__(self, *inputs: Array) -> tuple[Array, ...]:
        return self._all_lanes(lambda forward, *inputs: forward(*inputs), *inputs)

    def with_features(self, x: Array) -> tuple[Array, Array]:
        """Logits `[K, B, C]`, and what enters the last layers, `[K, B, F]`."""
        return self._all_lanes(lambda forward, x: forward.with_features(x), x)

    def at(self, params: Any) -> JointPass:
        """The same networks and keys at other parameters."""
        return JointPass(self.model, params, self.state, self.keys)

    def _all_lanes(self, pass_through: Callable[..., Any], *inputs: Array) -> Any:
        def one_lane(params: Any, state: Any, key: Array, *inputs: Array) -> tuple[Any, Any]:
            forward = NetworkPass(self.model, params, state, jax.random.fold_in(key, self.n_passes))
            return pass_through(forward, *inputs), forward.state

        outputs, self.state = jax.vmap(one_lane)(self.params, self.state, self.keys, *inputs)
        self.n_passes += 1
        return outputs
