"""A PyTorch network as a `Model`: `from_torch`.

What the optimiser trains are the parameters that ask for a gradient; everything else that the network holds is state,
by its name in PyTorch. Whole numbers that never change (tables of indices) are part of the program.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.checks import checked, shown
from nu_ensembles.errors import InputError, MissingExtraError
from nu_ensembles.models.adapting import adapted
from nu_ensembles.models.model import Model


@checked
def from_torch(
    factory: Callable[[], Any],
    example: Any,
    features: str | None = None,
    *,
    channels_last: bool = False,
    same_start: bool = False,
    fresh: Sequence[str] = (),
) -> Model:
    """Turns a PyTorch network into a model: `torch.export` reads it once, and from then on JAX computes it.

    Every member's weights are those that the factory makes under a seed from the member's key; PyTorch's own generator
    is left as it was. Batch statistics are state; dropout draws from the member's key.

    Args:
      factory: `() -> nn.Module`, whose `forward` takes a batch and returns logits `[B, C]` (or an object with `logits`,
        or a tuple that begins with them). A module that exists already is accepted if `same_start` says so.
      example: a batch as the network takes it, an array, a tensor or a shape such as `(1, 3, 32, 32)`. Its rows' shape
        and kind (floating or whole numbers) are those of all rows to come.
      features: name of a submodule; what enters it are the features, for methods that compare these.
      channels_last: rows are images `[H, W, C]`, as augmentation and corruptions have them, and are turned to the
        network's `[C, H, W]`.
      same_start: all members start from the weights of a single call of the factory, as in fine-tuning.
      fresh: names of submodules that start anew for every member nevertheless, by their own `reset_parameters`.

    Raises:
      InputError: the network cannot be exported, has operations without a rule (see `torch_rule`), or lies on another
        device than the CPU.
    """
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError("models.from_torch", "torch") from error
    from nu_ensembles.models.torch_import.network import ImportedNetwork

    if isinstance(factory, torch.nn.Module):
        if not same_start:
            raise InputError(
                "from_torch takes a factory such as lambda: Net(), which is called for every member; to start all of "
                "them from this module's weights say same_start=True."
            )
        factory = functools.partial(_given, factory)
    elif not callable(factory):
        raise InputError(f"from_torch takes a factory such as lambda: Net(), not {shown(factory)}.")
    fresh = (fresh,) if isinstance(fresh, str) else tuple(fresh)
    batch = _example_rows(example)
    network = ImportedNetwork(factory, torch.from_numpy(batch), features, same_start, fresh)
    options = {"channels_last": channels_last, "same_start": same_start, "fresh": fresh}
    again = functools.partial(from_torch, factory, batch, features, **options)
    row_shape = batch.shape[1:]
    dtype = None if np.issubdtype(batch.dtype, np.floating) else batch.dtype

    def rows(x: Array) -> Array:
        x = jnp.moveaxis(x, -1, 1) if channels_last and x.ndim > 2 else x
        if x.shape[1:] != row_shape:
            turned = " after turning them to channels first" if channels_last else ""
            raise InputError(
                f"The imported network takes rows of shape {row_shape}, as its example has them, not {x.shape[1:]}"
                f"{turned}; images [H, W, C] need channels_last=True."
            )
        return x if dtype is None else x.astype(jax.dtypes.canonicalize_dtype(dtype))

    def init(key: Array, x: Array) -> dict[str, Any]:
        rows(x)
        return network.init(key)

    def forward(method: str, variables: Any, x: Array, key: Array | None, train: bool) -> tuple[Any, Any]:
        outputs, state = network.compute(variables, rows(x), key, train)
        picked = {"__call__": lambda: outputs[0], "features": lambda: outputs[1], "both": lambda: tuple(outputs)}
        return picked[method](), state

    if features is None:
        return adapted(init, forward, None, made_by=again)
    return adapted(init, forward, "features", "both", made_by=again)


def _given(network: Any) -> Any:
    return network


def _example_rows(example: Any) -> np.ndarray:
    """Two rows of the example, in a dtype that PyTorch and JAX have in common."""
    if isinstance(example, (tuple, list)) and all(isinstance(size, int) for size in example):
        if len(example) < 2:
            raise InputError(f"The example's shape must be that of a batch, such as (1, 784), not {tuple(example)}.")
        # Ordinary numbers: zeros everywhere may be a corner case of a network.
        batch = np.random.default_rng(0).normal(size=(1, *example[1:])).astype(np.float32)
    else:
        detach: Any = getattr(example, "detach", None)
        batch = np.asarray(example if detach is None else detach().cpu())
    if batch.ndim < 2 or len(batch) == 0 or batch.dtype.kind not in "fiub":
        raise InputError(
            "The example must be a batch of numbers with at least one row, an array or tensor [B, …], or its shape."
        )
    rows = batch[np.arange(2) % len(batch)]
    return rows.astype(np.float32) if rows.dtype.kind == "f" else rows.astype(np.int64)
