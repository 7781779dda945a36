"""Rules from JAX's primitives to ONNX, by kind."""

from nu_ensembles.export.onnx_rules import elementwise, products, reductions, shapes  # noqa: F401  (fill the table)
from nu_ensembles.export.onnx_rules.table import ONNX_RULES, NoRuleError

__all__ = ["ONNX_RULES", "NoRuleError"]
