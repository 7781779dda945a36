"""Reads an exported program into a `Graph`; needs PyTorch."""

# pyright: reportMissingImports=false
from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import numpy as np
import torch

from nu_ensembles.errors import InputError
from nu_ensembles.models.torch_import.graph import DType, Graph, Step, TensorPlace
from nu_ensembles.models.torch_import.rules import RULES

# Where arrays lie and how is JAX's business.
IGNORED_OPTIONS = ("device", "layout", "pin_memory", "memory_format", "non_blocking", "requires_grad")


def operation_name(target: Any) -> str:
    """The name of a node's operation, as rules are registered: "aten.add.Tensor", "operator.mul", "math.ceil"."""
    if hasattr(target, "_schema"):
        return str(target)
    module, name = getattr(target, "__module__", None), getattr(target, "__name__", str(target))
    return f"{module.removeprefix('_')}.{name}" if module else str(target)


def operations(exported: Any) -> Iterator[tuple[str, Any]]:
    """Name and target of every operation of an exported program."""
    for node in exported.graph.nodes:
        if node.op == "call_function":
            yield operation_name(node.target), node.target


def read_graph(exported: Any, aliases: Mapping[str, str]) -> Graph:
    """Reads an exported program, whose operations all have rules.

    Args:
      aliases: names under which a network knows a parameter a second time -> the name that counts.
    """
    signature = exported.graph_signature
    names = {
        place: _own_name(name, aliases)
        for place, name in {**signature.inputs_to_parameters, **signature.inputs_to_buffers}.items()
    }
    lifted = signature.inputs_to_lifted_tensor_constants
    places: dict[Any, int] = {}
    inputs: dict[int, tuple[str, str]] = {}
    constants: dict[int, np.ndarray] = {}
    steps: list[Step] = []
    for number, node in enumerate(exported.graph.nodes):
        places[node] = number
        if node.op == "placeholder":
            if node.name in names:
                inputs[number] = ("variable", names[node.name])
            elif node.name in lifted:
                constants[number] = as_array(exported.constants[lifted[node.name]])
            else:
                inputs[number] = ("rows", node.name)
        elif node.op == "call_function":
            name = operation_name(node.target)
            arguments = tuple(_plain(each, places) for each in node.args)
            options = {n: _plain(each, places) for n, each in node.kwargs.items() if n not in IGNORED_OPTIONS}
            steps.append(Step(name, RULES[name], arguments, options, number))
        elif node.op != "output":
            raise InputError(f"The exported network holds a node of the kind {node.op!r}, which cannot be imported.")
    by_name = {node.name: place for node, place in places.items()}
    mutated = {_own_name(name, aliases): by_name[result] for result, name in signature.buffers_to_mutate.items()}
    given = tuple(by_name[each] for each in signature.user_outputs)
    return Graph(tuple(steps), inputs, constants, given, mutated)


def _own_name(name: str, aliases: Mapping[str, str]) -> str:
    """A tensor's name in the network itself, which was exported inside an `Outputs`."""
    name = name.removeprefix("network.")
    return aliases.get(name, name)


def _plain(value: Any, places: Mapping[Any, int]) -> Any:
    """A node's argument without PyTorch in it."""
    if isinstance(value, torch.fx.Node):
        return TensorPlace(places[value])
    if isinstance(value, torch.dtype):
        return DType(str(value).removeprefix("torch."))
    if isinstance(value, (list, tuple)):
        return [_plain(each, places) for each in value]
    if isinstance(value, slice):
        return slice(*(_plain(each, places) for each in (value.start, value.stop, value.step)))
    if isinstance(value, (torch.device, torch.layout, torch.memory_format)):
        return None
    return value


def as_array(tensor: Any) -> np.ndarray:
    """A tensor in host memory, in a dtype that JAX has under its setting."""
    tensor = tensor.detach().cpu().resolve_conj()
    if tensor.dtype in (torch.bfloat16, torch.float16):
        tensor = tensor.float()
    array = tensor.numpy()
    return array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
