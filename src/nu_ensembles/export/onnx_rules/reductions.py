"""Rules of sums, extremes and poolings."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nu_ensembles.export.onnx_graph import OnnxGraph, Operand, onnx_dtype
from nu_ensembles.export.onnx_rules.table import ONNX_RULES, NoRuleError, onnx_rule, result_of

_REDUCED = {
    "reduce_sum": "ReduceSum",
    "reduce_max": "ReduceMax",
    "reduce_min": "ReduceMin",
    "reduce_prod": "ReduceProd",
}


def _reduce(kind: str) -> Any:
    def rule(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
        x, (shape, dtype) = graph.full(operands[0]), result_of(equation)
        axes = np.array(equation.params["axes"], np.int64)
        return x if not len(axes) else graph.new(kind, [x, axes], shape, dtype, keepdims=0)

    return rule


ONNX_RULES |= {name: _reduce(kind) for name, kind in _REDUCED.items()}


@onnx_rule("reduce_and", "reduce_or")
def _reduce_logical(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    x, (shape, dtype) = graph.full(operands[0]), result_of(equation)
    numbers = graph.new("Cast", [x], x.shape, np.int32, to=onnx_dtype(np.int32))
    kind = "ReduceMin" if equation.primitive.name == "reduce_and" else "ReduceMax"
    found = graph.new(kind, [numbers, np.array(equation.params["axes"], np.int64)], shape, np.int32, keepdims=0)
    return graph.new("Cast", [found], shape, dtype, to=onnx_dtype(dtype))


@onnx_rule("argmax", "argmin")
def _arg(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    x, (shape, dtype) = graph.full(operands[0]), result_of(equation)
    (axis,) = equation.params["axes"]
    kind = "ArgMax" if equation.primitive.name == "argmax" else "ArgMin"
    found = graph.new(kind, [x], shape, np.int64, axis=axis, keepdims=0)
    return found if dtype == np.int64 else graph.new("Cast", [found], shape, dtype, to=onnx_dtype(dtype))


@onnx_rule("cumsum")
def _cumsum(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    x = graph.full(operands[0])
    backwards = int(equation.params["reverse"])
    return graph.new("CumSum", [x, np.array(equation.params["axis"], np.int64)], x.shape, x.dtype, reverse=backwards)


@onnx_rule("reduce_window_sum", "reduce_window_max")
def _window(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    x, (shape, dtype), params = graph.full(operands[0]), result_of(equation), equation.params
    window = params["window_dimensions"]
    moved = zip(window, params["window_strides"], params["padding"], params["window_dilation"], strict=True)
    spatial = [at for at, each in enumerate(moved) if each != (1, 1, (0, 0), 1)]
    if set(params["base_dilation"]) != {1} or len(spatial) > 3:
        raise NoRuleError(f"{equation.primitive.name} (over more than three axes)")
    if len(spatial) == 0:
        return x
    others = [at for at in range(len(window)) if at not in spatial]
    # Whatever is no picture becomes one: [others, 1, spatial axes].
    x = graph.transposed(x, [*others, *spatial])
    in_front = [x.shape[at] for at in range(len(others))]
    sizes = x.shape[len(others) :]
    if len(others) != 2:
        product: Any = 1
        for size in in_front:
            product = product * size
        x = graph.reshaped(x, (product, 1, *sizes))
    result_sizes = [shape[at] for at in spatial]
    lows, highs = zip(*(params["padding"][at] for at in spatial), strict=True)
    options: dict[str, Any] = {
        "kernel_shape": [window[at] for at in spatial],
        "strides": [params["window_strides"][at] for at in spatial],
        "pads": [*lows, *highs],
    }
    dilations = [params["window_dilation"][at] for at in spatial]
    made = (*x.shape[:2], *result_sizes)
    if equation.primitive.name == "reduce_window_max":
        pooled = graph.new("MaxPool", [x], made, dtype, dilations=dilations, **options)
    elif set(dilations) == {1}:
        mean = graph.new("AveragePool", [x], made, dtype, count_include_pad=1, **options)
        count = np.array(np.prod(options["kernel_shape"]), dtype)
        pooled = graph.new("Mul", [mean, count], made, dtype)
    else:
        raise NoRuleError("reduce_window_sum (dilated)")
    pooled = graph.reshaped(pooled, (*in_front, *result_sizes))
    return graph.transposed(pooled, np.argsort([*others, *spatial]).tolist())
