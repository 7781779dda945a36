"""What `from_torch` finds out about a network, and what it then does with it; needs PyTorch."""

# pyright: reportMissingImports=false
from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import torch
from jax import Array

from nu_ensembles.errors import InputError
from nu_ensembles.models.torch_import import drawing, exporting, reading
from nu_ensembles.models.torch_import.graph import Graph

# Two seeds, by which is found what differs between two networks of a factory.
SEEDS = 0, 1


class ImportedNetwork:
    """A factory's network: how its variables are drawn and what it computes.

    Attributes:
      graphs: what it computes, in training (True) and in prediction.
      trained: names of what the optimiser changes.
      fixed: whole numbers that never change.
      shapes: of all else, by name.
    """

    def __init__(
        self,
        make: Callable[[], torch.nn.Module],
        example: torch.Tensor,
        features: str | None,
        same_start: bool,
        fresh: tuple[str, ...],
    ) -> None:
        self.factory = factory = drawing.Factory(make, same_start, fresh, example)
        networks = [factory.network(seed) for seed in SEEDS]
        tensors, others = map(drawing.named_tensors, networks)
        drawing.check_structure({name: tuple(each.shape) for name, each in tensors.items()}, others)
        # A copy, because what the factory gave may be the user's own.
        network = copy.deepcopy(networks[0])
        example = _as_computed(example, network)
        exporting.check_network(network, example, features)
        programs = [exporting.export(copy.deepcopy(networks[0]), example, features, train) for train in (False, True)]
        if missing := exporting.missing_rules(*programs):
            raise InputError(
                f"The network uses operations that have no rule yet: {', '.join(missing)}. Give each a rule with "
                "nu.models.torch_rule (docs/pytorch.md shows how), or write the layer with other operations."
            )
        aliases = drawing.second_names(networks[0])
        self.graphs: dict[bool, Graph] = {
            train: reading.read_graph(program, aliases) for train, program in zip((False, True), programs, strict=True)
        }
        self.trained = {name for name, each in networks[0].named_parameters() if each.requires_grad}
        changing = self.graphs[True].mutated.keys() | self.graphs[False].mutated.keys()
        self.fixed = {
            name: reading.as_array(each)
            for name, each in tensors.items()
            if name not in self.trained | changing
            and not each.is_floating_point()
            and bool((each == others[name]).all())
        }
        self.shapes = {
            name: jax.ShapeDtypeStruct(tuple(each.shape), reading.as_array(each).dtype)
            for name, each in tensors.items()
            if name not in self.fixed
        }

    def init(self, key: Array) -> dict[str, Any]:
        data = jax.random.key_data(key) if jnp.issubdtype(key.dtype, jax.dtypes.prng_key) else key
        draw = functools.partial(drawing.drawn, self.factory, self.shapes)
        values = jax.pure_callback(draw, self.shapes, data, vmap_method="sequential")
        variables = {"params": {name: value for name, value in values.items() if name in self.trained}}
        buffers = {name: value for name, value in values.items() if name not in self.trained}
        return {**variables, "buffers": buffers} if buffers else variables

    def compute(
        self, variables: Any, x: Array, key: Array | None, train: bool
    ) -> tuple[list[Array], dict[str, dict[str, Array]]]:
        buffers = variables.get("buffers", {})
        known = {**variables["params"], **buffers, **self.fixed}
        outputs, changed = self.graphs[train].compute(known, x, key)
        return outputs, {"buffers": {**buffers, **changed}} if buffers else {}


def _as_computed(example: torch.Tensor, network: torch.nn.Module) -> torch.Tensor:
    """Floating rows in the dtype of a network that is not in float32."""
    dtypes = (each.dtype for each in network.parameters() if each.is_floating_point())
    return example.to(next(dtypes, example.dtype)) if example.is_floating_point() else example
