"""Rules of what is computed number by number; ONNX broadcasts its operands as NumPy does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from nu_ensembles.export.onnx_graph import OnnxGraph, Operand, onnx_dtype
from nu_ensembles.export.onnx_rules.table import ONNX_RULES, NoRuleError, onnx_rule, result_of

_SAME = {
    "add": "Add", "add_any": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "pow": "Pow", "neg": "Neg",
    "exp": "Exp", "log": "Log", "tanh": "Tanh", "sqrt": "Sqrt", "abs": "Abs", "sign": "Sign", "floor": "Floor",
    "ceil": "Ceil", "erf": "Erf", "logistic": "Sigmoid", "sin": "Sin", "cos": "Cos", "tan": "Tan", "asin": "Asin",
    "acos": "Acos", "atan": "Atan", "sinh": "Sinh", "cosh": "Cosh", "asinh": "Asinh", "acosh": "Acosh",
    "atanh": "Atanh", "max": "Max", "min": "Min", "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater",
    "ge": "GreaterOrEqual",
}  # fmt: skip
_LOGICAL = {"and": ("And", "BitwiseAnd"), "or": ("Or", "BitwiseOr"), "xor": ("Xor", "BitwiseXor")}
_LOGICAL["not"] = ("Not", "BitwiseNot")
# Runtimes have Max, Min and the like for these; other whole numbers go through int64.
_CALCULATED = ("f4", "f8", "i4", "i8")


def held_together(operands: Sequence[Operand]) -> tuple[Any, ...]:
    """The shape in which ONNX gives what it computes of operands; scalars have no axes."""
    with_axes = [each.held for each in operands if each.held]
    if not with_axes:
        return ()
    return tuple(
        next((size for size in sizes if not (isinstance(size, int) and size == 1)), 1)
        for sizes in zip(*with_axes, strict=True)
    )


def pointwise(graph: OnnxGraph, kind: str, operands: Sequence[Operand], equation: Any, **options: Any) -> Operand:
    shape, dtype = result_of(equation)
    return graph.new(kind, operands, shape, dtype, held_together(operands), **options)


def _same(kind: str) -> Any:
    def rule(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
        return pointwise(graph, kind, operands, equation)

    return rule


def _logical(kinds: tuple[str, str]) -> Any:
    def rule(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
        return pointwise(graph, kinds[operands[0].dtype != bool], operands, equation)

    return rule


ONNX_RULES |= {name: _same(kind) for name, kind in _SAME.items()}
ONNX_RULES |= {name: _logical(kinds) for name, kinds in _LOGICAL.items()}


@onnx_rule("copy", "copy_p", "stop_gradient", "optimization_barrier", "pvary")
def _as_it_is(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Any:
    return list(operands) if equation.primitive.multiple_results else operands[0]


def _scalar(graph: OnnxGraph, value: float, like: Operand) -> Operand:
    return Operand(np.array(value, like.dtype), (), (), like.dtype)


@onnx_rule("ne")
def _ne(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    equal = pointwise(graph, "Equal", operands, equation)
    return pointwise(graph, "Not", [equal], equation)


@onnx_rule("square")
def _square(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    return pointwise(graph, "Mul", [operands[0], operands[0]], equation)


@onnx_rule("integer_pow")
def _integer_pow(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    (x,), power = operands, equation.params["y"]
    if power == 2:
        return _square(graph, operands, equation)
    return pointwise(graph, "Pow", [x, _scalar(graph, power, x)], equation)


@onnx_rule("rsqrt")
def _rsqrt(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    return pointwise(graph, "Reciprocal", [pointwise(graph, "Sqrt", operands, equation)], equation)


@onnx_rule("cbrt")
def _cbrt(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    (x,) = operands
    size = pointwise(graph, "Pow", [pointwise(graph, "Abs", [x], equation), _scalar(graph, 1 / 3, x)], equation)
    return pointwise(graph, "Mul", [pointwise(graph, "Sign", [x], equation), size], equation)


@onnx_rule("exp2")
def _exp2(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    return pointwise(graph, "Pow", [_scalar(graph, 2.0, operands[0]), operands[0]], equation)


@onnx_rule("log1p")
def _log1p(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    (x,) = operands
    return pointwise(graph, "Log", [pointwise(graph, "Add", [x, _scalar(graph, 1.0, x)], equation)], equation)


@onnx_rule("expm1")
def _expm1(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    (x,) = operands
    # exp(x) - 1 = 2 sinh(x/2) exp(x/2), which keeps its digits near zero.
    half = pointwise(graph, "Mul", [x, _scalar(graph, 0.5, x)], equation)
    grown = pointwise(graph, "Mul", [pointwise(graph, "Exp", [half], equation), _scalar(graph, 2.0, x)], equation)
    return pointwise(graph, "Mul", [pointwise(graph, "Sinh", [half], equation), grown], equation)


@onnx_rule("erfc")
def _erfc(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    (x,) = operands
    return pointwise(graph, "Sub", [_scalar(graph, 1.0, x), pointwise(graph, "Erf", [x], equation)], equation)


@onnx_rule("is_finite")
def _is_finite(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    either = pointwise(
        graph,
        "Or",
        [pointwise(graph, "IsNaN", operands, equation), pointwise(graph, "IsInf", operands, equation)],
        equation,
    )
    return pointwise(graph, "Not", [either], equation)


@onnx_rule("rem")
def _rem(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    return pointwise(graph, "Mod", operands, equation, fmod=1)


@onnx_rule("round")
def _round(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    if "EVEN" not in str(equation.params["rounding_method"]):
        raise NoRuleError("round (away from zero)")
    return pointwise(graph, "Round", operands, equation)


@onnx_rule("convert_element_type", "reduce_precision")
def _convert(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    (x,), (_, dtype) = operands, result_of(equation)
    if equation.primitive.name == "reduce_precision" or x.dtype == dtype:
        return x
    return pointwise(graph, "Cast", [x], equation, to=onnx_dtype(dtype))


@onnx_rule("select_n")
def _select(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    which, *cases = operands
    if which.dtype != bool or len(cases) != 2:
        raise NoRuleError("select_n (of more than two)")
    no, yes = cases
    return pointwise(graph, "Where", [which, yes, no], equation)


@onnx_rule("clamp")
def _clamp(graph: OnnxGraph, operands: Sequence[Operand], equation: Any) -> Operand:
    low, x, high = operands
    return pointwise(graph, "Min", [pointwise(graph, "Max", [x, low], equation), high], equation)
