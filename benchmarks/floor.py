"""The least time that a training step can take on a device: its products over the measured rate of products, its
bytes over the measured rate of copies.

A layer's three passes (forward, gradient of the weights, gradient of the input) each take as long as the slower of
their multiplications and their bytes: operands in, result out, once. On top come 24 bytes a parameter: the
parameter and Adam's two moments, each read and written once in float32. What stands between layers counts as free,
and a weight's gradient as never stored: a perfect compiler would use both while they are in registers.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp

from nu_ensembles.models import Model, split_variables
from nu_ensembles.models.inspect import equations

BYTES_A_PARAMETER = 24


@dataclasses.dataclass(frozen=True)
class Rates:
    """Products, in multiplications and additions a second, and copies, in bytes read or written a second."""

    flops: float
    bytes: float


@dataclasses.dataclass(frozen=True)
class Layer:
    """One product of a forward pass: multiplications and additions, and bytes of input, weights and output."""

    flops: float
    input_bytes: float
    weight_bytes: float
    output_bytes: float


def seconds(function: Callable[..., Any], *arguments: Any, least: float = 0.1) -> float:
    """The least time of a call, over calls of `least` seconds in all."""
    jax.block_until_ready(function(*arguments))
    best, end = math.inf, time.perf_counter() + least
    while time.perf_counter() < end:
        start = time.perf_counter()
        results = [function(*arguments) for _ in range(4)]
        jax.block_until_ready(results)
        best = min(best, (time.perf_counter() - start) / 4)
    return best


def measured_rates(dtype: str, size: int | None = None) -> Rates:
    """What this device reaches on one large matrix product and on one large copy (which reads and writes)."""
    size = size or (8192 if jax.default_backend() != "cpu" else 1024)
    a = jnp.ones((size, size), dtype)
    product = seconds(jax.jit(lambda a, b: a @ b), a, a)
    n_bytes = 1 << (30 if jax.default_backend() != "cpu" else 27)
    x = jnp.ones(n_bytes // 4, jnp.float32)
    add_one = jax.jit(lambda x: x + 1, donate_argnums=0)  # in place: fresh memory is slow to get on a CPU
    x = add_one(x)
    copy, end = math.inf, time.perf_counter() + 0.2
    while time.perf_counter() < end:
        start = time.perf_counter()
        x = add_one(add_one(add_one(add_one(x))))
        x.block_until_ready()
        copy = min(copy, (time.perf_counter() - start) / 4)
    return Rates(2 * size**3 / product, 2 * n_bytes / copy)


def layers(model: Model, row_shape: tuple[int, ...], n_rows: int) -> tuple[list[Layer], int]:
    """The products of one member's forward pass over so many rows, and its number of parameters."""
    x = jax.ShapeDtypeStruct((n_rows, *row_shape), jnp.float32)
    variables = jax.eval_shape(model.init, jax.eval_shape(lambda: jax.random.key(0)), x)
    jaxpr = jax.make_jaxpr(lambda v, x: model.apply(v, x, key=None, train=False))(variables, x).jaxpr
    found = []
    for equation in equations(jaxpr):
        operands = [variable.aval for variable in equation.invars]
        (result,) = (variable.aval for variable in equation.outvars[:1])
        if equation.primitive.name == "dot_general":
            contracted = math.prod(operands[0].shape[axis] for axis in equation.params["dimension_numbers"][0][0])
            flops = 2 * math.prod(result.shape) * contracted
        elif equation.primitive.name == "conv_general_dilated":
            kernel = operands[1].shape
            flops = 2 * math.prod(result.shape) * math.prod(kernel[:3])  # [h, w, C, O]
        else:
            continue
        left, right = (operand.size * operand.dtype.itemsize for operand in operands[:2])
        found.append(Layer(flops, left, right, result.size * result.dtype.itemsize))
    n_parameters = sum(leaf.size for leaf in jax.tree.leaves(split_variables(variables)[0]))
    return found, n_parameters


def floor(model: Model, row_shape: tuple[int, ...], n_rows: int, n_members: int, rates: Rates) -> dict[str, float]:
    """Milliseconds, multiplications and bytes of the fastest step that such a device allows."""
    each, n_parameters = layers(model, row_shape, n_rows)
    duration = flops = n_bytes = 0.0
    for number, layer in enumerate(each):
        around = layer.input_bytes + layer.output_bytes
        # Forward, gradient of the weights, and gradient of the input, which the first layer does not need.
        for moved in (around + layer.weight_bytes, around, around + layer.weight_bytes)[: 2 if number == 0 else 3]:
            duration += max(layer.flops / rates.flops, moved / rates.bytes)
            flops += layer.flops
            n_bytes += moved
    optimiser = BYTES_A_PARAMETER * n_parameters
    duration += optimiser / rates.bytes
    return {
        "floor_ms": 1e3 * n_members * duration,
        "flops": n_members * flops,
        "bytes": n_members * (n_bytes + optimiser),
        "flops_a_second": rates.flops,
        "bytes_a_second": rates.bytes,
    }
