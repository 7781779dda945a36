"""Rules of matrix products and convolutions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from nu_ensembles.export.onnx_graph import OnnxGraph, Operand
from nu_ensembles.export.onnx_rules.table import NoRuleError, onnx_rule, result_of


@onnx_rule("dot_general")
def _dot_general(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    """Both sides as stacks of matrices, `[batch, free, contracted]` and `[batch, contracted, free]`."""
    left, right = map(graph.full, operands)
    shape, dtype = result_of(equation)
    (left_sum, right_sum), (left_batch, right_batch) = equation.params["dimension_numbers"]
    if left.dtype != right.dtype or left.dtype.kind != "f":
        raise NoRuleError(f"dot_general (of {left.dtype} and {right.dtype})")
    left_free = [at for at in range(len(left.shape)) if at not in (*left_sum, *left_batch)]
    right_free = [at for at in range(len(right.shape)) if at not in (*right_sum, *right_batch)]
    left = graph.transposed(left, [*left_batch, *left_free, *left_sum])
    right = graph.transposed(right, [*right_batch, *right_sum, *right_free])
    n_batch, n_sum = len(left_batch), len(left_sum)
    batch = left.shape[:n_batch]
    of_left = left.shape[n_batch : n_batch + len(left_free)]
    of_right = right.shape[n_batch + n_sum :]
    summed = left.shape[len(left.shape) - n_sum :]
    # A stack of matrices on the left and one matrix on the right need no reshaping.
    if not (n_batch == 0 and n_sum == 1 and len(of_left) >= 1):
        left = graph.reshaped(left, (*batch, _product(of_left), _product(summed)))
        of_rows: tuple[Any, ...] = (_product(of_left),)
    else:
        of_rows = of_left
    right = graph.reshaped(right, (*batch, _product(summed), _product(of_right)))
    made = (*batch, *of_rows, _product(of_right))
    return graph.reshaped(graph.new("MatMul", [left, right], made, dtype), shape)


@onnx_rule("conv_general_dilated")
def _convolution(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    x, kernel = map(graph.full, operands)
    (shape, dtype), params = result_of(equation), equation.params
    numbers = params["dimension_numbers"]
    if set(params["lhs_dilation"]) != {1} or params["batch_group_count"] != 1:
        raise NoRuleError("conv_general_dilated (transposed)")
    x = graph.transposed(x, numbers.lhs_spec)
    kernel = graph.transposed(kernel, numbers.rhs_spec)
    lows, highs = zip(*params["padding"], strict=True)
    if min(*lows, *highs) < 0:
        raise NoRuleError("conv_general_dilated (that cuts edges off)")
    made = tuple(shape[at] for at in numbers.out_spec)
    found = graph.new(
        "Conv",
        [x, kernel],
        made,
        dtype,
        strides=list(params["window_strides"]),
        pads=[*lows, *highs],
        dilations=list(params["rhs_dilation"]),
        group=params["feature_group_count"],
    )
    return graph.transposed(found, np.argsort(numbers.out_spec).tolist())


def _product(sizes: Sequence[Any]) -> Any:
    """Of sizes, one of which may hang on the number of rows."""
    known = math.prod(size for size in sizes if isinstance(size, int))
    for size in sizes:
        known = known if isinstance(size, int) else known * size
    return known
