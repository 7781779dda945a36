"""Rules for operations that work on every number alone.

Where a function has a kink, its derivative there is PyTorch's: many values lie at kinks (zeros after a ReLU, padding).
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax

from nu_ensembles.models.activations import rectified
from nu_ensembles.models.torch_import.channels_last import number_by_number
from nu_ensembles.models.torch_import.rules import RULES, torch_rule

_EARLIER = frozenset(RULES)
_NOT_ALONE = ("aten.glu", "aten.prelu", "aten._prelu", "operator.")

UNARY: dict[str, Callable[[Any], Any]] = {
    "abs": lambda x: _length(x),
    "acos": jnp.arccos,
    "acosh": jnp.arccosh,
    "asin": jnp.arcsin,
    "asinh": jnp.arcsinh,
    "atan": jnp.arctan,
    "atanh": jnp.arctanh,
    "bitwise_not": jnp.bitwise_not,
    "ceil": jnp.ceil,
    "cos": jnp.cos,
    "cosh": jnp.cosh,
    "erf": lax.erf,
    "erfc": lax.erfc,
    "erfinv": lax.erf_inv,
    "exp": jnp.exp,
    "exp2": jnp.exp2,
    "expm1": jnp.expm1,
    "floor": jnp.floor,
    "isfinite": jnp.isfinite,
    "isinf": jnp.isinf,
    "isnan": jnp.isnan,
    "lgamma": lax.lgamma,
    "log": jnp.log,
    "log10": jnp.log10,
    "log1p": jnp.log1p,
    "log2": jnp.log2,
    "log_sigmoid": jax.nn.log_sigmoid,
    "logical_not": jnp.logical_not,
    "mish": jax.nn.mish,
    "neg": jnp.negative,
    "reciprocal": jnp.reciprocal,
    "relu": rectified,
    "round": jnp.round,
    "rsqrt": lax.rsqrt,
    "selu": jax.nn.selu,
    "sgn": jnp.sign,
    "sigmoid": jax.nn.sigmoid,
    "sign": jnp.sign,
    "signbit": jnp.signbit,
    "silu": jax.nn.silu,
    "sin": jnp.sin,
    "sinh": jnp.sinh,
    "sqrt": jnp.sqrt,
    "square": jnp.square,
    "tan": jnp.tan,
    "tanh": jnp.tanh,
    "trunc": jnp.trunc,
}


def _length(x: Array) -> Array:
    """The absolute value; its derivative at zero is zero."""
    if not jnp.iscomplexobj(x):
        return x * lax.stop_gradient(jnp.sign(x))
    nothing = x == 0
    return jnp.where(nothing, 0, jnp.abs(jnp.where(nothing, 1, x)))


# Of two tensors, or of a tensor and a number (overload `Scalar`).
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    "bitwise_and": jnp.bitwise_and,
    "bitwise_or": jnp.bitwise_or,
    "bitwise_xor": jnp.bitwise_xor,
    "eq": jnp.equal,
    "ge": jnp.greater_equal,
    "gt": jnp.greater,
    "le": jnp.less_equal,
    "lt": jnp.less,
    "mul": jnp.multiply,
    "ne": jnp.not_equal,
    "remainder": jnp.remainder,
    "fmod": jnp.fmod,
}
PYTHON = (
    "add",
    "eq",
    "floordiv",
    "ge",
    "getitem",
    "gt",
    "le",
    "lt",
    "mod",
    "mul",
    "ne",
    "neg",
    "pow",
    "sub",
    "truediv",
)


def _register() -> None:
    for name, function in UNARY.items():
        torch_rule(f"aten.{name}.default")(function)
    for name, function in BINARY.items():
        torch_rule(f"aten.{name}.Tensor", f"aten.{name}.Scalar")(function)
    for name, function in {
        "atan2": jnp.arctan2,
        "fmax": jnp.fmax,
        "fmin": jnp.fmin,
        "floor_divide": jnp.floor_divide,
        "hypot": jnp.hypot,
        "logical_and": jnp.logical_and,
        "logical_or": jnp.logical_or,
        "logical_xor": jnp.logical_xor,
        "logaddexp": jnp.logaddexp,
        "maximum": jnp.maximum,
        "minimum": jnp.minimum,
    }.items():
        torch_rule(f"aten.{name}.default")(function)
    for name in PYTHON:
        torch_rule(f"operator.{name}")(getattr(operator, name))


_register()


@torch_rule("aten.add.Tensor", "aten.add.Scalar")
def add(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x + (y if alpha == 1 else alpha * y)


@torch_rule("aten.sub.Tensor", "aten.sub.Scalar")
def sub(x: Any, y: Any, alpha: Any = 1) -> Any:
    return x - (y if alpha == 1 else alpha * y)


@torch_rule("aten.rsub.Tensor", "aten.rsub.Scalar")
def rsub(x: Any, y: Any, alpha: Any = 1) -> Any:
    return sub(y, x, alpha)


@torch_rule("aten.div.Tensor", "aten.div.Scalar", "aten.div.Tensor_mode", "aten.div.Scalar_mode")
def div(x: Any, y: Any, rounding_mode: str | None = None) -> Any:
    if rounding_mode == "floor":
        return jnp.floor_divide(x, y)
    return (
        jnp.true_divide(x, y)
        if rounding_mode is None
        else jnp.trunc(jnp.true_divide(x, y)).astype(jnp.result_type(x, y))
    )


@torch_rule("aten.pow.Tensor_Scalar", "aten.pow.Tensor_Tensor", "aten.pow.Scalar")
def pow(x: Any, exponent: Any) -> Any:
    # Whole powers have a derivative at zero and below.
    whole = isinstance(exponent, float) and exponent.is_integer()
    return jnp.power(x, int(exponent) if whole else exponent)


@torch_rule("aten.addcmul.default")
def addcmul(x: Array, a: Array, b: Array, value: float = 1) -> Array:
    return x + value * a * b


@torch_rule("aten.addcdiv.default")
def addcdiv(x: Array, a: Array, b: Array, value: float = 1) -> Array:
    return x + value * a / b


@torch_rule("aten.lerp.Tensor", "aten.lerp.Scalar")
def lerp(start: Array, end: Array, weight: Any) -> Array:
    return start + weight * (end - start)


@torch_rule("aten.where.self", "aten.where.ScalarSelf", "aten.where.ScalarOther", "aten.where.Scalar")
def where(condition: Array, x: Any, y: Any) -> Array:
    return jnp.where(condition, x, y)


@torch_rule("aten.masked_fill.Scalar", "aten.masked_fill.Tensor")
def masked_fill(x: Array, mask: Array, value: Any) -> Array:
    return jnp.where(mask, jnp.asarray(value, x.dtype), x)


@torch_rule("aten.clamp.default", "aten.clamp.Tensor")
def clamp(x: Array, min: Any = None, max: Any = None) -> Array:
    if min is not None:
        x = jnp.where(x < min, min, x)
    return x if max is None else jnp.where(x > max, max, x)


@torch_rule("aten.clamp_min.default", "aten.clamp_min.Tensor")
def clamp_min(x: Array, min: Any) -> Array:
    return clamp(x, min)


@torch_rule("aten.clamp_max.default", "aten.clamp_max.Tensor")
def clamp_max(x: Array, max: Any) -> Array:
    return clamp(x, None, max)


@torch_rule("aten.nan_to_num.default")
def nan_to_num(x: Array, nan: float | None = None, posinf: float | None = None, neginf: float | None = None) -> Array:
    return jnp.nan_to_num(x, nan=nan or 0.0, posinf=posinf, neginf=neginf)


@torch_rule("aten.hardtanh.default")
def hardtanh(x: Array, low: float = -1.0, high: float = 1.0) -> Array:
    return jnp.where(x <= low, low, jnp.where(x >= high, high, x)).astype(x.dtype)


@torch_rule("aten.relu6.default")
def relu6(x: Array) -> Array:
    return hardtanh(x, 0.0, 6.0)


@torch_rule("aten.hardsigmoid.default")
def hardsigmoid(x: Array) -> Array:
    return hardtanh(x, -3.0, 3.0) / 6 + 0.5


@torch_rule("aten.hardswish.default")
def hardswish(x: Array) -> Array:
    return jnp.where(x <= -3, 0.0, jnp.where(x < 3, x * (x + 3) / 6, x)).astype(x.dtype)


@torch_rule("aten.leaky_relu.default")
def leaky_relu(x: Array, negative_slope: float = 0.01) -> Array:
    return jnp.where(x > 0, x, negative_slope * x)


@torch_rule("aten.prelu.default", "aten._prelu_kernel.default")
def prelu(x: Array, weight: Array) -> Array:
    # One slope a channel, the second axis.
    slopes = weight.reshape(-1, *(1,) * (x.ndim - 2)) if weight.size > 1 and weight.ndim == 1 and x.ndim > 1 else weight
    return jnp.where(x > 0, x, slopes * x)


@torch_rule("aten.threshold.default")
def threshold(x: Array, threshold: float, value: float) -> Array:
    return jnp.where(x > threshold, x, value).astype(x.dtype)


@torch_rule("aten.elu.default")
def elu(x: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    # The exponential of large numbers, though not taken, would make the derivative not a number.
    negative = alpha * jnp.expm1(input_scale * jnp.where(x > 0, 0.0, x))
    return (scale * jnp.where(x > 0, x, negative)).astype(x.dtype)


@torch_rule("aten.celu.default")
def celu(x: Array, alpha: float = 1.0) -> Array:
    return elu(x, alpha, 1.0, 1.0 / alpha)


@torch_rule("aten.softplus.default")
def softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    return jnp.where(x * beta > threshold, x, jax.nn.softplus(jnp.minimum(x * beta, threshold)) / beta).astype(x.dtype)


@torch_rule("aten.softshrink.default")
def softshrink(x: Array, lambd: float = 0.5) -> Array:
    return jnp.where(x > lambd, x - lambd, jnp.where(x < -lambd, x + lambd, 0.0)).astype(x.dtype)


@torch_rule("aten.hardshrink.default")
def hardshrink(x: Array, lambd: float = 0.5) -> Array:
    return jnp.where(jnp.abs(x) > lambd, x, 0.0).astype(x.dtype)


@torch_rule("aten.gelu.default")
def gelu(x: Array, approximate: str = "none") -> Array:
    return jax.nn.gelu(x, approximate=approximate == "tanh")


@torch_rule("aten.glu.default")
def glu(x: Array, dim: int = -1) -> Array:
    value, gate = jnp.split(x, 2, axis=dim)
    return value * jax.nn.sigmoid(gate)


# All but those that look at an axis, or at sizes.
number_by_number([name for name in RULES if name not in _EARLIER and not name.startswith(_NOT_ALONE)])
