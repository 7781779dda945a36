"""Rules of what moves numbers without changing them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nu_ensembles.export.onnx_graph import OnnxGraph, Operand
from nu_ensembles.export.onnx_rules.table import NoRuleError, onnx_rule, result_of


@onnx_rule("broadcast_in_dim")
def _broadcast(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    x, (shape, dtype) = operands[0], result_of(equation)
    places = equation.params["broadcast_dimensions"]
    held = [1] * len(shape)
    for at, size in zip(places, x.held, strict=True):
        held[at] = size
    if isinstance(x.value, np.ndarray):
        return Operand(x.value.reshape(held), shape, tuple(held), dtype)
    added = [at for at in range(len(shape)) if at not in places]
    value = graph.add("Unsqueeze", [x, np.array(added, np.int64)]) if added else x.value
    return Operand(value, shape, tuple(held), dtype)


@onnx_rule("reshape")
def _reshape(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    if equation.params.get("dimensions") is not None:
        raise NoRuleError("reshape (with transposition)")
    return graph.reshaped(operands[0], result_of(equation)[0])


@onnx_rule("squeeze")
def _squeeze(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    (x,), (shape, dtype) = operands, result_of(equation)
    away = [at % len(x.shape) for at in equation.params["dimensions"]]
    held = tuple(size for at, size in enumerate(x.held) if at not in away)
    if isinstance(x.value, np.ndarray):
        return Operand(x.value.reshape(held), shape, held, dtype)
    return graph.new("Squeeze", [x, np.array(away, np.int64)], shape, dtype, held)


@onnx_rule("expand_dims")
def _expand_dims(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    return graph.reshaped(operands[0], result_of(equation)[0])


@onnx_rule("transpose")
def _transpose(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    return graph.transposed(operands[0], equation.params["permutation"])


@onnx_rule("slice")
def _slice(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    x, (shape, dtype) = operands[0], result_of(equation)
    starts, ends = equation.params["start_indices"], equation.params["limit_indices"]
    strides = equation.params["strides"] or (1,) * len(starts)
    return sliced(graph, x, starts, ends, strides, shape, dtype)


def sliced(
    graph: OnnxGraph,
    x: Operand,
    starts: Sequence[Any],
    ends: Sequence[Any],
    strides: Sequence[int],
    shape: Any,
    dtype: Any,
) -> Operand:
    """A part of an operand; axes that stay whole are left alone, however long."""
    parted = [
        at
        for at, (start, end, stride) in enumerate(zip(starts, ends, strides, strict=True))
        if not (isinstance(start, int) and start == 0 and stride == 1 and bool(end == x.shape[at]))
    ]
    if not parted:
        return x
    if any(not isinstance(each[at], int) for at in parted for each in (starts, ends)):
        raise NoRuleError("slice (of rows)")
    x = graph.full(x)
    chosen = [np.array([each[at] for at in parted], np.int64) for each in (starts, ends)]
    steps = np.array([strides[at] for at in parted], np.int64)
    return graph.new("Slice", [x, *chosen, np.array(parted, np.int64), steps], shape, dtype)


@onnx_rule("dynamic_slice")
def _dynamic_slice(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    x, *starts = operands
    (shape, dtype), sizes = result_of(equation), equation.params["slice_sizes"]
    if not all(each.is_constant for each in starts):
        raise NoRuleError("dynamic_slice (at a place that hangs on values)")
    at_most = [
        0 if not isinstance(size, int) or not isinstance(whole, int) else int(np.clip(each.array, 0, whole - size))
        for each, size, whole in zip(starts, sizes, x.shape, strict=True)
    ]
    return sliced(
        graph, x, at_most, [a + b for a, b in zip(at_most, sizes, strict=True)], [1] * len(sizes), shape, dtype
    )


@onnx_rule("concatenate")
def _concatenate(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    shape, dtype = result_of(equation)
    parts = [graph.full(each) for each in operands]
    return graph.new("Concat", parts, shape, dtype, axis=equation.params["dimension"])


@onnx_rule("stack")
def _stack(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    (shape, dtype), axis = result_of(equation), equation.params["axis"]
    apart = [graph.reshaped(each, (*each.shape[:axis], 1, *each.shape[axis:])) for each in operands]
    return graph.new("Concat", apart, shape, dtype, axis=axis)


@onnx_rule("tile")
def _tile(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    shape, dtype = result_of(equation)
    return graph.new("Tile", [graph.full(operands[0]), np.array(equation.params["reps"], np.int64)], shape, dtype)


@onnx_rule("unstack")
def _unstack(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> list[Operand]:
    x, axis = graph.full(operands[0]), equation.params["axis"]
    shape, dtype = result_of(equation)
    places = range(len(equation.outvars))
    return [graph.new("Gather", [x, np.array(at, np.int64)], shape, dtype, axis=axis) for at in places]


@onnx_rule("split")
def _split(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> list[Operand]:
    x, axis, sizes = graph.full(operands[0]), equation.params["axis"], equation.params["sizes"]
    names = graph.add("Split", [x, np.array(sizes, np.int64)], n_outputs=len(sizes), axis=axis)
    names = [names] if isinstance(names, str) else names
    shapes = [tuple(each.aval.shape) for each in equation.outvars]
    return [Operand(name, shape, shape, x.dtype) for name, shape in zip(names, shapes, strict=True)]


@onnx_rule("pad")
def _pad(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    x, value = operands
    shape, dtype = result_of(equation)
    low, high, inside = zip(*equation.params["padding_config"], strict=True)
    if any(inside):
        raise NoRuleError("pad (between numbers)")
    # Negative paddings cut, in ONNX, too.
    pads = np.array([*low, *high], np.int64)
    return graph.new("Pad", [graph.full(x), pads, value], shape, dtype)


@onnx_rule("rev")
def _rev(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    x, axes = graph.full(operands[0]), np.array(equation.params["dimensions"], np.int64)
    backwards = np.full(len(axes), -1, np.int64)
    ends = np.full(len(axes), np.iinfo(np.int64).min + 1, np.int64)
    return graph.new("Slice", [x, backwards, ends, axes, backwards], x.shape, x.dtype)


@onnx_rule("gather")
def _gather(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    """One part at a known place, or whole slices along one axis, as embeddings and whole numbers take them."""
    x, indices = map(graph.full, operands)
    (shape, dtype), numbers = result_of(equation), equation.params["dimension_numbers"]
    sizes = equation.params["slice_sizes"]
    collapsed = tuple(numbers.collapsed_slice_dims)
    if indices.is_constant and len(indices.shape) == 1 and not numbers.operand_batching_dims:
        # How JAX writes x[:, 2:4] where the number of rows is open.
        known = dict(zip(numbers.start_index_map, indices.array.tolist(), strict=True))
        starts = [known.get(at, 0) for at in range(len(x.shape))]
        ends = [start + size for start, size in zip(starts, sizes, strict=True)]
        part = sliced(graph, x, starts, ends, [1] * len(starts), tuple(sizes), dtype)
        return graph.reshaped(part, shape)
    if _along_an_axis(numbers, sizes):
        (axis,) = numbers.start_index_map
        return graph.new("GatherElements", [x, graph.reshaped(indices, shape)], shape, dtype, axis=axis)
    plain = (
        len(numbers.start_index_map) == 1
        and collapsed == tuple(numbers.start_index_map)
        and not numbers.operand_batching_dims
        and all(
            bool(size == whole)
            for at, (size, whole) in enumerate(zip(sizes, x.shape, strict=True))
            if at not in collapsed
        )
    )
    if not plain:
        raise NoRuleError("gather (other than of whole slices along one axis)")
    (axis,) = collapsed
    length = x.shape[axis]
    if not isinstance(length, int):
        raise NoRuleError("gather (of rows)")
    places = graph.reshaped(indices, indices.shape[:-1])
    if not places.is_constant:
        places = graph.new(
            "Clip", [places, np.array(0, places.dtype), np.array(length - 1, places.dtype)], places.shape, places.dtype
        )
    taken = (*x.shape[:axis], *places.shape, *x.shape[axis + 1 :])
    found = graph.new("Gather", [x, places], taken, dtype, axis=axis)
    # Axes of slices stand at `offset_dims`, those of indices at the others, each in their order.
    n_places = len(places.shape)
    of_slices = [*range(axis), *range(axis + n_places, len(taken))]
    of_places = list(range(axis, axis + n_places))
    slices, at_places = iter(of_slices), iter(of_places)
    order = [next(slices) if at in numbers.offset_dims else next(at_places) for at in range(len(taken))]
    return graph.transposed(found, order)


def _along_an_axis(numbers: Any, sizes: Sequence[Any]) -> bool:
    """Whether it is `take_along_axis`: one number from each place, at an index of its own."""
    others = tuple(at for at in range(len(sizes)) if at not in numbers.start_index_map)
    return (
        len(numbers.start_index_map) == 1
        and tuple(numbers.collapsed_slice_dims) == tuple(numbers.start_index_map)
        and tuple(numbers.operand_batching_dims) == tuple(numbers.start_indices_batching_dims) == others
        and len(others) > 0
        and not numbers.offset_dims
        and all(isinstance(size, int) and size == 1 for size in sizes)
    )
