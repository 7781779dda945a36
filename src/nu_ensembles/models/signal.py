"""A convolutional network for signals: rows that are series of numbers, in which order means something.

Every block convolves along the series and halves it; the last one is averaged, so that what was found counts wherever
it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from nu_ensembles.checks import check_whole, checked, shown
from nu_ensembles.errors import InputError
from nu_ensembles.models.builtin import built_in, dtype_name
from nu_ensembles.models.layers import BiasedReluConv, Returned, dense, full_dtype, last_layer
from nu_ensembles.models.model import Model

WIDTH = 5


class SignalNet(nn.Module):
    """`[B, L]` or `[B, L, C] -> [B, n_classes]`, for series of length L and C channels."""

    n_classes: int
    filters: tuple[int, ...] = (32, 64, 64)
    dtype: Any = "float32"

    @nn.compact
    def __call__(self, x: Array, returned: Returned = "logits") -> Any:
        if x.ndim not in (2, 3):
            raise InputError(
                f"The model 'signal' takes series [B, L] or [B, L, channels], not an array of shape {tuple(x.shape)}; "
                "use 'lenet' for images."
            )
        shortest = 2 ** len(self.filters)
        if x.shape[1] < shortest:
            raise InputError(
                f"The model 'signal' halves a series {len(self.filters)} times and needs a length of at least "
                f"{shortest}, not {x.shape[1]}; use the model 'mlp', or fewer filters."
            )
        # As images one pixel wide: the convolutions of images are those that the engine runs for many members at once.
        h = x.reshape(x.shape[0], x.shape[1], 1, -1)
        for layer, filters in enumerate(self.filters):
            h = _halved(BiasedReluConv(filters, (WIDTH, 1), self.dtype, name=f"Conv_{layer}")(h))
        h = jnp.mean(h.astype(full_dtype(self.dtype)), axis=(1, 2))
        return last_layer(h, dense(self.n_classes, dtype=h.dtype), returned)

    def features(self, x: Array) -> Array:
        return self(x, returned="features")

    def logits_and_features(self, x: Array) -> tuple[Array, Array]:
        return self(x, returned="both")


def _halved(h: Array) -> Array:
    """The larger of each two neighbours `[B, L, 1, F] -> [B, L // 2, 1, F]`; an odd last one is left out."""
    n_pairs = h.shape[1] // 2
    return h[:, : 2 * n_pairs].reshape(h.shape[0], n_pairs, 2, *h.shape[2:]).max(axis=2)


@checked
def signal(n_classes: int, filters: Sequence[int] = (32, 64, 64), dtype: Any = "auto") -> Model:
    """A one-dimensional convolutional network, for series `[n, length]` or `[n, length, channels]`.

    Args:
      n_classes: length of the logits.
      filters: of each convolution, after which the series is half as long.
      dtype: of the convolutions; "auto" is bfloat16 on a GPU and float32 elsewhere. The last layer and the logits are
        float32 in any case.
    """
    if not isinstance(filters, Sequence) or isinstance(filters, str) or not filters:
        raise InputError(f"filters must list those of each convolution, as in (32, 64, 64), not {shown(filters)}.")
    options = {"filters": tuple(check_whole(each, "filters") for each in filters), "dtype": dtype_name(dtype)}
    return built_in("signal", SignalNet, n_classes, options)
