"""Writes a traced JAX program into an ONNX graph, equation by equation, by the table of rules.

The program is read as JAX traces it (a jaxpr) with an open number of rows, whatever made it: a built-in network, Flax,
Equinox, Keras, or an imported PyTorch graph. What depends on constants alone is computed now, loops are unrolled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.extend import core

from nu_ensembles.export.onnx_graph import OnnxGraph, Operand
from nu_ensembles.export.onnx_rules import ONNX_RULES, NoRuleError

# Where the program that a calling equation calls stands in its parameters.
_CALLED = ("call_jaxpr", "jaxpr", "fun_jaxpr", "call")
_CALLS = ("jit", "pjit", "closed_call", "core_call", "checkpoint", "remat", "remat2", "composite")
_CALLS += ("custom_jvp_call", "custom_vjp_call", "custom_vjp_call_jaxpr", "custom_vmap_call")
# A constant of more numbers than this is left to the runtime.
LARGEST_FOLDED = 1 << 26
LONGEST_LOOP = 512


def write(graph: OnnxGraph, closed: Any, inputs: Sequence[Operand]) -> list[Operand]:
    """Adds a traced program to the graph and returns its outputs; what has no rule is noted in `graph.missing`."""
    constants = [_constant(each) for each in closed.consts]
    return _write(graph, closed.jaxpr, constants, inputs)


def _write(graph: OnnxGraph, jaxpr: Any, constants: Sequence[Operand], inputs: Sequence[Operand]) -> list[Operand]:
    known: dict[Any, Operand] = dict(zip(jaxpr.constvars, constants, strict=True))
    known |= dict(zip(jaxpr.invars, inputs, strict=True))

    def operand(variable: Any) -> Operand:
        return _constant(variable.val) if isinstance(variable, core.Literal) else known[variable]

    for equation in jaxpr.eqns:
        operands = [operand(each) for each in equation.invars]
        found = _computed(graph, equation, operands)
        known |= dict(zip(equation.outvars, found, strict=True))
    return [operand(each) for each in jaxpr.outvars]


def _computed(graph: OnnxGraph, equation: Any, operands: Sequence[Operand]) -> list[Operand]:
    name = equation.primitive.name
    inner = _program_of(equation)
    if inner is not None:
        return write(graph, inner, operands)
    if name != "broadcast_in_dim" and all(each.is_constant for each in operands) and _has_fixed_shape(equation):
        return _folded(equation, operands)
    try:
        if name == "scan":
            return _unrolled(graph, equation, operands)
        if name not in ONNX_RULES:
            raise NoRuleError(name)
        found = ONNX_RULES[name](graph, operands, equation)
    except NoRuleError as error:
        # Goes on, so that all that is missing is named at once.
        graph.missing.add(str(error))
        return [Operand("missing", *_twice(each.aval.shape), np.dtype(each.aval.dtype)) for each in equation.outvars]
    return found if isinstance(found, list) else [found]


def _twice(shape: Sequence[Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    return tuple(shape), tuple(shape)


def _program_of(equation: Any) -> Any:
    if equation.primitive.name not in _CALLS:
        return None
    for name in _CALLED:
        called = equation.params.get(name)
        if called is not None and not callable(called):
            return called if isinstance(called, core.ClosedJaxpr) else core.ClosedJaxpr(called, ())
        if isinstance(called, core.ClosedJaxpr):
            return called
    return None


def _has_fixed_shape(equation: Any) -> bool:
    sizes = [size for each in equation.outvars for size in getattr(each.aval, "shape", ())]
    if not all(isinstance(size, int) for size in sizes):
        return False
    return all(int(np.prod(each.aval.shape)) <= LARGEST_FOLDED for each in equation.outvars)


def _folded(equation: Any, operands: Sequence[Operand]) -> list[Operand]:
    """What constants come to, by JAX itself."""
    values = [_as_jax(operand, variable) for variable, operand in zip(equation.invars, operands, strict=True)]
    with jax.default_device(jax.local_devices(backend="cpu")[0]):
        found = equation.primitive.bind(*values, **equation.params)
    return [_constant(each) for each in (found if equation.primitive.multiple_results else [found])]


def _as_jax(operand: Operand, variable: Any) -> Any:
    dtype = variable.aval.dtype
    if jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
        return operand.value
    return jax.numpy.asarray(operand.array, dtype)


def _constant(value: Any) -> Operand:
    dtype = getattr(value, "dtype", None)
    if dtype is not None and jax.numpy.issubdtype(dtype, jax.dtypes.prng_key):
        return _Key(value, tuple(value.shape), tuple(value.shape), np.dtype(object))
    array = np.asarray(value)
    return Operand(array, array.shape, array.shape, array.dtype)


class _Key(Operand):
    """Keys of random numbers, which are constants and never reach the graph."""

    @property
    def is_constant(self) -> bool:
        return True


def _unrolled(graph: OnnxGraph, equation: Any, operands: Sequence[Operand]) -> list[Operand]:
    """A loop of known length, written out."""
    params = equation.params
    length, n_fixed, n_carried = params["length"], params["num_consts"], params["num_carry"]
    if length > LONGEST_LOOP:
        raise NoRuleError(f"scan (over {length} steps)")
    fixed, carried = list(operands[:n_fixed]), list(operands[n_fixed : n_fixed + n_carried])
    over = [graph.full(each) for each in operands[n_fixed + n_carried :]]
    made: list[list[Operand]] = []
    for step in reversed(range(length)) if params["reverse"] else range(length):
        taken = [_at(graph, each, step) for each in over]
        results = write(graph, params["jaxpr"], [*fixed, *carried, *taken])
        carried, rest = results[:n_carried], results[n_carried:]
        made.append(rest)
    if params["reverse"]:
        made.reverse()
    stacked = []
    for number, variable in enumerate(equation.outvars[n_carried:]):
        shape = tuple(variable.aval.shape)
        parts = [graph.reshaped(each[number], (1, *shape[1:])) for each in made]
        stacked.append(graph.new("Concat", parts, shape, variable.aval.dtype, axis=0))
    return [*carried, *stacked]


def _at(graph: OnnxGraph, operand: Operand, step: int) -> Operand:
    if operand.is_constant:
        return _constant(operand.array[step])
    shape = operand.shape[1:]
    return graph.new("Gather", [operand, np.array(step, np.int64)], shape, operand.dtype, axis=0)
