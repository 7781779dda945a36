"""How much device memory a lane needs, estimated without compiling anything."""

from __future__ import annotations

import functools
import os
from typing import Any

import jax
import jax.numpy as jnp

from nu_ensembles.engine.program import Program
from nu_ensembles.models import join_variables, split_variables, variable_shapes

# Parameters, gradient, update and Adam's two moments.
COPIES_OF_PARAMETERS = 5
# What XLA's temporaries were seen to need beyond the residuals.
SAFETY = 1.5


def n_bytes(tree: Any) -> int:
    """Bytes of all arrays (or shapes) in a tree."""
    return sum(int(leaf.size) * leaf.dtype.itemsize for leaf in jax.tree.leaves(tree))


@functools.lru_cache(maxsize=64)
def lane_bytes(program: Program, row_shape: tuple[int, ...], with_unlabeled: bool) -> int:
    """Bytes that one lane needs while it trains: its state, and what the backward pass keeps of the forward."""
    n_rows = program.batch_size + (program.unlabeled_batch_size if with_unlabeled else 0)
    x = jax.ShapeDtypeStruct((n_rows, *row_shape), jnp.dtype(program.dtype))
    key = jax.eval_shape(lambda: jax.random.key(0, impl="threefry2x32"))
    params, state = split_variables(variable_shapes(program.model, row_shape, program.dtype))

    def residuals(params: Any, state: Any, x: Any, key: Any) -> Any:
        def logits(params: Any) -> Any:
            output = program.model.apply(join_variables(params, state), x, key=key, train=True)
            return output[0] if isinstance(output, tuple) else output

        # The pullback is a pytree whose leaves are the saved activations.
        return jax.vjp(logits, params)[1]

    saved = jax.eval_shape(residuals, params, state, x, key)
    return int(SAFETY * (COPIES_OF_PARAMETERS * n_bytes(params) + n_bytes(saved)))


def free_bytes(device: Any) -> int:
    """Memory that a program may use on a device: what its allocator has left, or half of the host's on a CPU."""
    stats = device.memory_stats() if device.platform != "cpu" else None
    if stats and "bytes_limit" in stats:
        return int(stats["bytes_limit"]) - int(stats.get("bytes_in_use", 0))
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2


def lanes_that_fit(program: Program, row_shape: tuple[int, ...], with_unlabeled: bool, device: Any) -> int:
    """How many lanes may train at once on a device; at least one, since there is no smaller program."""
    return max(1, free_bytes(device) // max(1, lane_bytes(program, row_shape, with_unlabeled)))
