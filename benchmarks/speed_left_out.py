"""The parts of the package that are there for speed only, and the plain form that takes the place of each.

`what_speed_costs.py` measures them; the documentation counts their lines.
"""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import jax
import jax.numpy as jnp
from jax import Array, lax


@dataclasses.dataclass(frozen=True)
class Part:
    """Something that is there for speed only.

    Attributes:
      files: below `src/nu_ensembles`, whose lines it costs; with `:name` only those of a function.
      network: where it is measured.
      leave_out: puts the plain form in its place until the stack ends.
      on_cpu: whether a CPU uses it.
      network_of_gpu: where it is compiled for an H200; None for nowhere.
      variables: of the environment, of a process that starts without it.
    """

    name: str
    files: tuple[str, ...]
    network: str
    leave_out: Callable[[ExitStack], None]
    on_cpu: bool = True
    network_of_gpu: str | None = None
    variables: Mapping[str, str] = dataclasses.field(default_factory=dict)


def replaced(*changes: tuple[str, Any]) -> Callable[[ExitStack], None]:
    """Other values for names of the package's modules, each `module.name`."""

    def leave_out(stack: ExitStack) -> None:
        for name, value in changes:
            stack.enter_context(patch(f"nu_ensembles.{name}", value))

    return leave_out


def on_another_backend(**fields: Any) -> Callable[[ExitStack], None]:
    """Other answers of `Backend`."""

    def leave_out(stack: ExitStack) -> None:
        from nu_ensembles import backend

        for kind in ("CPU", "GPU"):
            other = dataclasses.replace(getattr(backend, kind), **fields)
            stack.enter_context(patch.object(backend, kind, other))

    return leave_out


# The plain forms


def bernoulli_masks(key: Array, n_masks: int, shape: tuple[int, ...], keep: float, stream: int = 0) -> Any:
    from nu_ensembles.models.masks import Kept

    keys = jax.random.split(jax.random.fold_in(key, stream), n_masks)
    return [Kept(jax.random.bernoulli(each, keep, shape), keep) for each in keys]


def plain_biased_relu(x: Array, bias: Array, dtype: str) -> Array:
    return jax.nn.relu(x + bias).astype(dtype)


def plain_biased_relu_dropout(x: Array, before: Array, after: Array, kept: Any, dtype: str) -> Array:
    y = jax.nn.relu(x + before) + after
    return (y if kept is None else jnp.where(kept.mask, y / kept.share, 0)).astype(dtype)


def plain_biased_convolution(layer: Any, x: Array, bias: Array, dtype: str) -> Array:
    return layer((x + bias).astype(dtype)).astype(dtype)


def weight_gradient_as_it_is(geometry: Any, kept: Array, g: Array) -> Array:
    from nu_ensembles.models.unrolled import _strided_weight_gradient

    (rows, columns), (_, n_rows, n_columns, _) = geometry.padding, kept.shape
    size = n_rows + sum(rows) - g.shape[1] + 1, n_columns + sum(columns) - g.shape[2] + 1
    return _strided_weight_gradient(geometry, kept, g, size)


def plain_convolution(geometry: Any, x: Array, w: Array) -> Array:
    from nu_ensembles.models.lowerings import plain

    return plain(geometry, x, w)


def whole_step_in_one_program(stack: ExitStack) -> None:
    """The two halves of a step on the host: the first does nothing, the second is the step."""
    from nu_ensembles.engine import loop, step

    @partial(jax.jit, static_argnums=0, donate_argnums=1)
    def whole(program: Any, state: Any, inputs: Any, lanes: Any, number: Array) -> Any:
        data, block = inputs
        forward = step.forward_pass(program, state, lanes, *loop.batch_and_keys(program, lanes, data, block, number))
        carried = step.backward_pass(program, step.packed_parameters(program, state), lanes, forward, number)
        return step.unpacked_parameters(program, carried, state.params), forward.losses

    def nothing(program: Any, state: Any, lanes: Any, data: Any, block: Any, number: Array) -> Any:
        return data, block

    replaced(
        ("engine.fast.host_steps.first_half", nothing),
        ("engine.fast.host_steps.second_half", whole),
        ("engine.run.lowered_halves", lambda *_: []),
    )(stack)


def plain_rounds(one_step: Any, prepared: Any, carry: Any, start: Array, end: Array) -> Any:
    return lax.fori_loop(start, end, lambda step, c: one_step(c, step, *prepared(step), True), carry)


ALL = [
    Part(
        "packing of small parameters",
        ("engine/fast/packing.py",),
        "WRN-10-1",
        replaced(("engine.fast.packing._is_large", lambda leaf: True)),
        network_of_gpu="WRN-22-4",
    ),
    Part(
        "rounds of steps",
        ("engine/fast/rounds.py",),
        "MLP 64-64",
        replaced(("engine.loop.steps_in_rounds", plain_rounds)),
        on_cpu=False,
        network_of_gpu="MLP 784-500-300",
    ),
    Part("a step in two programs", ("engine/fast/host_steps.py",), "WRN-10-1", whole_step_in_one_program),
    Part(
        "steps called from the host",
        ("engine/fast/host_steps.py",),
        "LeNet",
        on_another_backend(convolutions_on_host=False),
    ),
    Part(
        "a member on each core",
        ("engine/fast/threads.py",),
        "LeNet",
        replaced(("engine.plans.n_cores", lambda: 1)),
    ),
    Part(
        "programs compiled at the same time",
        ("engine/run.py:Run._prepare",),
        "LeNet",
        replaced(("engine.run.Run._prepare", lambda self: None)),
    ),
    Part(
        "draws of many steps at once",
        ("engine/blocks.py",),
        "MLP 64-64",
        on_another_backend(block=1, block_of_convolutions=1),
    ),
    Part(
        "draws compiled quickly",
        ("engine/fast/compilation.py:jitted_quickly",),
        "MLP 64-64",
        lambda stack: None,
        variables={"XLA_FLAGS": "--xla_backend_optimization_level=3"},
    ),
    Part(
        "a look at parts of large gradients",
        ("engine/finite.py:_looked_at",),
        "MLP 784-500-300",
        replaced(("engine.finite.LARGE", 1 << 62)),
        network_of_gpu="MLP 784-500-300",
    ),
    Part(
        "masks from packed bits",
        ("models/masks.py",),
        "WRN-10-1",
        replaced(("models.wide_resnet.keep_masks", bernoulli_masks)),
        network_of_gpu="WRN-22-4",
    ),
    Part(
        "derivatives between convolutions by hand",
        ("models/activations.py",),
        "WRN-10-1",
        replaced(
            ("models.wide_resnet.biased_relu", plain_biased_relu),
            ("models.wide_resnet.biased_relu_dropout", plain_biased_relu_dropout),
            ("models.wide_resnet.biased_convolution", plain_biased_convolution),
        ),
        network_of_gpu="WRN-22-4",
    ),
    Part(
        "convolutions of a CPU, member after member",
        ("models/unrolled.py",),
        "WRN-10-1",
        on_another_backend(most_unrolled=0, images_last=False),
    ),
    Part(
        "columns together",
        ("models/unrolled.py:_columns_together", "models/unrolled.py:by_columns", "models/unrolled.py:_n_columns"),
        "WRN-10-1",
        replaced(("models.unrolled._columns_together", plain_convolution)),
    ),
    Part(
        "weight gradients with rows apart",
        ("models/unrolled.py:spread_weight_gradient",),
        "WRN-10-1",
        replaced(("models.unrolled.spread_weight_gradient", weight_gradient_as_it_is)),
    ),
    Part(
        "images kept last",
        ("models/unrolled.py:images_last",),
        "WRN-10-1",
        on_another_backend(images_last=False),
    ),
    Part(
        "small products as sums",
        ("models/layers.py:small_product",),
        "WRN-10-1",
        on_another_backend(largest_sum=0),
        on_cpu=False,
        network_of_gpu="WRN-22-4",
    ),
]
PARTS = {part.name: part for part in ALL}


def lines_of(part: Part) -> int:
    """How many lines of the package a part is."""
    root, total = Path(__file__).parents[1] / "src/nu_ensembles", 0
    for place in part.files:
        file, _, name = place.partition(":")
        text = (root / file).read_text(encoding="utf-8")
        nodes = [node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)]
        found = [node for node in nodes if name.split(".")[-1] == node.name]
        total += sum((node.end_lineno or 0) - node.lineno + 1 for node in found) if name else text.count("\n")
    return total
