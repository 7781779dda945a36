"""The table of rules: what every primitive of a traced network is in ONNX.

A rule takes the graph, the operands of one equation and the equation itself, and gives the operand (or operands) that
it computes. Shapes and dtypes of what comes out stand in the equation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from nu_ensembles.export.onnx_graph import OnnxGraph, Operand

Rule = Callable[[OnnxGraph, Sequence[Operand], Any], Any]
ONNX_RULES: dict[str, Rule] = {}


class NoRuleError(Exception):
    """An equation that has no rule, or that a rule cannot write; its message names the operation."""


def onnx_rule(*names: str) -> Callable[[Rule], Rule]:
    """Registers a function as the rule of JAX primitives."""

    def register(rule: Rule) -> Rule:
        for name in names:
            ONNX_RULES[name] = rule
        return rule

    return register


def result_of(equation: Any) -> tuple[tuple[Any, ...], np.dtype]:
    """Shape and dtype of what an equation gives."""
    aval = equation.outvars[0].aval
    return tuple(aval.shape), np.dtype(aval.dtype)
