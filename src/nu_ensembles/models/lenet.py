"""The published LeNet: two 3×3 convolutions with average pooling, one hidden layer of 256 units."""

from __future__ import annotations

import flax.linen as nn
from jax import Array

from nu_ensembles.errors import InputError
from nu_ensembles.models.builtin import built_in, dtype_name
from nu_ensembles.models.layers import as_images, conv, dense, full_dtype
from nu_ensembles.models.model import Model


class LeNet(nn.Module):
    """`[B, H, W, C]` (or `[B, H, W]`) `-> [B, n_classes]`, for images of at least 4×4."""

    n_classes: int
    dtype: str = "float32"

    @nn.compact
    def __call__(self, x: Array, features_only: bool = False) -> Array:
        h = as_images(x, "LeNet")
        if min(h.shape[1:3]) < 4:
            raise InputError(
                f"LeNet halves an image twice and needs at least 4×4 pixels, not {h.shape[1]}×{h.shape[2]}; "
                "use the model 'mlp'."
            )
        for filters in (32, 64):
            h = nn.relu(conv(filters, (3, 3), dtype=self.dtype)(h))
            h = nn.avg_pool(h, (2, 2), strides=(2, 2)).astype(self.dtype)
        h = h.reshape(h.shape[0], -1)
        h = nn.relu(dense(256, dtype=self.dtype)(h)).astype(full_dtype(self.dtype))
        return h if features_only else dense(self.n_classes, dtype=h.dtype)(h)

    def features(self, x: Array) -> Array:
        return self(x, features_only=True)


def lenet(n_classes: int, dtype: str = "float32") -> Model:
    """The published LeNet. It has no dropout."""
    return built_in("lenet", LeNet, n_classes, {"dtype": dtype_name(dtype)})
