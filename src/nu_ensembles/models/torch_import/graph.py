"""An exported PyTorch network as a list of steps, free of PyTorch, and how they are computed in JAX.

A step is one operation with its rule; its arguments are plain values, or places where earlier steps left theirs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.models.torch_import.channels_last import computed, in_order
from nu_ensembles.models.torch_import.rules import Rule


@dataclasses.dataclass(frozen=True)
class TensorPlace:
    """Stands in a step's arguments for what an input or an earlier step is."""

    number: int


@dataclasses.dataclass(frozen=True)
class DType:
    """Stands in a step's arguments for a dtype; "float32" is whatever the network is computed in."""

    name: str


@dataclasses.dataclass(frozen=True)
class Step:
    operation: str
    rule: Rule
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    place: int


@dataclasses.dataclass(frozen=True)
class Graph:
    """A network in one mode.

    Attributes:
      inputs: place -> (kind, name), where kind is "variable" (a parameter or buffer, by its name in PyTorch) or "rows".
      constants: place -> array.
      outputs: places of what the network gives back.
      mutated: name of a buffer -> place of its new value.
    """

    steps: tuple[Step, ...]
    inputs: dict[int, tuple[str, str]]
    constants: dict[int, np.ndarray]
    outputs: tuple[int, ...]
    mutated: dict[str, int]

    @property
    def n_draws(self) -> int:
        return sum(step.rule.draws for step in self.steps)

    def compute(self, variables: Mapping[str, Any], x: Array, key: Array | None) -> tuple[list[Any], dict[str, Any]]:
        """The outputs, and the new values of the buffers that change."""
        known: dict[int, Any] = {place: jnp.asarray(value) for place, value in self.constants.items()}
        known |= {place: x if kind == "rows" else variables[name] for place, (kind, name) in self.inputs.items()}
        dtype = _dtype_of(variables)
        n_draws = self.n_draws if key is not None else 0
        keys = iter(jax.random.split(key, n_draws) if key is not None and n_draws else ())
        for step in self.steps:
            options = {name: _filled(value, known, dtype) for name, value in step.options.items()}
            if step.rule.draws:
                options["key"] = next(keys, None)
            try:
                arguments = [_filled(each, known, dtype) for each in step.arguments]
                known[step.place] = computed(step.rule, arguments, options)
            except Exception as error:
                error.add_note(f"This was in the rule of {step.operation} in an imported PyTorch network.")
                raise
        outputs = [in_order(known[place]) for place in self.outputs]
        return outputs, {name: in_order(known[place]) for name, place in self.mutated.items()}


def _dtype_of(variables: Mapping[str, Any]) -> Any:
    """What the network is computed in: the dtype of its parameters, which the engine chooses."""
    floats = (leaf.dtype for leaf in variables.values() if jnp.issubdtype(leaf.dtype, jnp.floating))
    return next(floats, jnp.zeros(()).dtype)


def _filled(value: Any, known: Mapping[int, Any], dtype: Any) -> Any:
    """An argument with what stands in for things replaced by them."""
    if isinstance(value, TensorPlace):
        return known[value.number]
    if isinstance(value, DType):
        return np.dtype(dtype) if value.name == "float32" else jax.dtypes.canonicalize_dtype(value.name)
    if isinstance(value, list):
        return [_filled(each, known, dtype) for each in value]
    if isinstance(value, slice):
        return slice(*(_filled(each, known, dtype) for each in (value.start, value.stop, value.step)))
    return value
