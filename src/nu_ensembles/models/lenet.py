"""The published LeNet: two 3×3 convolutions with average pooling, one hidden layer of 256 units."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flax.linen as nn
from jax import Array

from nu_ensembles.checks import check_whole, checked, shown
from nu_ensembles.errors import InputError
from nu_ensembles.models.activations import average_pool
from nu_ensembles.models.builtin import built_in, dtype_name
from nu_ensembles.models.layers import BiasedReluConv, Returned, as_images, dense, full_dtype, last_layer
from nu_ensembles.models.model import Model

PUBLISHED_WIDTHS = (32, 64, 256)


class LeNet(nn.Module):
    """`[B, H, W, C]` (or `[B, H, W]`) `-> [B, n_classes]`, for images of at least 4×4."""

    n_classes: int
    dtype: Any = "float32"
    widths: tuple[int, int, int] = PUBLISHED_WIDTHS

    @nn.compact
    def __call__(self, x: Array, returned: Returned = "logits") -> Any:
        h = as_images(x, "LeNet")
        if min(h.shape[1:3]) < 4:
            raise InputError(
                f"LeNet halves an image twice and needs at least 4×4 pixels, not {h.shape[1]}×{h.shape[2]}; "
                "use the model 'mlp'."
            )
        for layer, filters in enumerate(self.widths[:2]):
            h = average_pool(BiasedReluConv(filters, (3, 3), self.dtype, name=f"Conv_{layer}")(h))
        h = h.reshape(h.shape[0], -1)
        h = nn.relu(dense(self.widths[2], dtype=self.dtype)(h)).astype(full_dtype(self.dtype))
        return last_layer(h, dense(self.n_classes, dtype=h.dtype), returned)

    def features(self, x: Array) -> Array:
        return self(x, returned="features")

    def logits_and_features(self, x: Array) -> tuple[Array, Array]:
        return self(x, returned="both")


@checked
def lenet(n_classes: int, dtype: Any = "auto", widths: Sequence[int] = PUBLISHED_WIDTHS) -> Model:
    """The published LeNet, or one of other widths. It has no dropout.

    Args:
      n_classes: length of the logits.
      dtype: of the convolutions; "auto" is bfloat16 on a GPU and float32 elsewhere. The last layer and the logits are
        float32 in any case.
      widths: filters of the two convolutions, and units of the hidden layer.
    """
    if not isinstance(widths, Sequence) or isinstance(widths, str) or len(widths) != len(PUBLISHED_WIDTHS):
        raise InputError(
            f"widths lists two numbers of filters and one of units, as in (32, 64, 256), not {shown(widths)}."
        )
    options: dict[str, Any] = {"dtype": dtype_name(dtype)}
    chosen = tuple(check_whole(width, "widths") for width in widths)
    # Said only where it is so: the published network is described as it always was.
    return built_in("lenet", LeNet, n_classes, options | ({} if chosen == PUBLISHED_WIDTHS else {"widths": chosen}))
