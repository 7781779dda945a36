"""Wide residual networks with Fixup instead of normalisation layers; the published one is WRN-22-4.

Fixup (Zhang, Dauphin & Ma 2019) replaces batch normalisation by scalar biases and one multiplier per residual
branch, and by an initialisation under which every block is its shortcut and all logits are exactly zero.
Parameter names are those of the published code. Functions of `activations.py` and `masks.py` are plain expressions,
written so that they train faster.
"""

from __future__ import annotations

from typing import Any

import flax.linen as nn
import jax.numpy as jnp
from jax import Array

from nu_ensembles.checks import check_flag, check_positive, check_whole, checked
from nu_ensembles.errors import InputError
from nu_ensembles.models.activations import biased_convolution, biased_relu, biased_relu_dropout
from nu_ensembles.models.builtin import built_in, dtype_name
from nu_ensembles.models.layers import Returned, as_images, conv, dense, full_dtype, last_layer, small_product
from nu_ensembles.models.masks import Kept, keep_masks
from nu_ensembles.models.model import Model

STEM_CHANNELS = 16
BRANCH_CONVOLUTIONS = 2


class FixupBias(nn.Module):
    """One learnt scalar `[1]`, initially 0, to be added to a whole tensor. The sum has its dtype, float32."""

    param_dtype: Any

    @nn.compact
    def __call__(self) -> Array:
        return self.param("fixup_bias", nn.initializers.zeros, (1,), self.param_dtype)


class FixupMultiplier(nn.Module):
    """One learnt scalar `[1]`, initially 1, by which a whole tensor is multiplied."""

    param_dtype: Any

    @nn.compact
    def __call__(self) -> Array:
        return self.param("fixup_multiplier", nn.initializers.ones, (1,), self.param_dtype)


class FixupBasicBlock(nn.Module):
    """`[B, H, W, C] -> [B, ⌈H/stride⌉, ⌈W/stride⌉, channels]`: shortcut + scaled residual branch.

      x + multiplier * conv(dropout(relu(conv(relu(x + bias)) + bias) + bias)) + bias

    `n_blocks` is the number of residual blocks in the whole network, L in Fixup's L^(-1/(2m-2)).
    """

    channels: int
    stride: int
    n_blocks: int
    dtype: str

    @nn.compact
    def __call__(self, x: Array, kept: Kept | None) -> Array:
        biases = [FixupBias(full_dtype(self.dtype))() for _ in range(4)]
        multiplier = FixupMultiplier(full_dtype(self.dtype))()
        # variance_scaling's sd is sqrt(scale / fan_in); Fixup's is He's sqrt(2 / fan_in) times L^(-1/(2m-2)).
        scale = 2.0 * self.n_blocks ** (-1 / (BRANCH_CONVOLUTIONS - 1))
        fixup = nn.initializers.variance_scaling(scale, "fan_in", "normal")

        h = biased_relu(x, biases[0], self.dtype)
        # A block that changes the channel count takes its shortcut after bias and ReLU, the others before.
        shortcut = x if x.shape[-1] == self.channels else self._conv(1, self.stride, name="Conv_2")(h)
        h = self._conv(3, self.stride, kernel_init=fixup, name="Conv_0")(h)
        h = biased_relu_dropout(h, biases[1], biases[2], kept, self.dtype)
        # The multiplier scales the kernel instead of the result: its gradient is then a sum over the kernel.
        h = self._conv(3, 1, kernel_init=nn.initializers.zeros, kernel_scale=multiplier, name="Conv_1")(h) + biases[3]
        return (shortcut + h).astype(self.dtype)

    @nn.nowrap
    def _conv(self, size: int, stride: int, **options: Any) -> nn.Conv:
        return conv(self.channels, (size, size), strides=(stride, stride), use_bias=False, dtype=self.dtype, **options)


class FixupStage(nn.Module):
    """Blocks of one width; the first may halve the image."""

    channels: int
    stride: int
    n_stage_blocks: int
    n_blocks: int
    dropout: float
    shared_dropout: bool
    dtype: str

    @nn.compact
    def __call__(self, x: Array, dropout_key: Array | None) -> Array:
        masks = self._masks(dropout_key, x.shape)
        for block, kept in enumerate(masks):
            stride = self.stride if block == 0 else 1
            x = FixupBasicBlock(self.channels, stride, self.n_blocks, self.dtype)(x, kept)
        return x

    @nn.nowrap
    def _masks(self, key: Array | None, shape: tuple[int, ...]) -> list[Kept] | list[None]:
        """What dropout keeps in each block; all of a stage are drawn at once, and those of all stages from one key."""
        if key is None:
            return [None] * self.n_stage_blocks
        n_images, *size, _ = shape
        height, width = (-(-n // self.stride) for n in size)
        of_one = (1 if self.shared_dropout else n_images, height, width, self.channels)
        return keep_masks(key, self.n_stage_blocks, of_one, 1 - self.dropout, stream=self.channels)


class FixupWideResNet(nn.Module):
    """`[B, H, W, C]` (or `[B, H, W]`) `-> [B, n_classes]`: stem, three stages, global average, dense."""

    n_classes: int
    depth: int = 22
    widen: int = 4
    dropout: float = 0.3
    shared_dropout: bool = False
    dtype: Any = "float32"

    @nn.compact
    def __call__(self, x: Array, deterministic: bool = True, returned: Returned = "logits") -> Any:
        full = full_dtype(self.dtype)
        n_stage_blocks = blocks_per_stage(self.depth)
        dropout_key = None if deterministic or self.dropout == 0 else self.make_rng("dropout")

        x = as_images(x, "A wide ResNet")
        stem = conv(STEM_CHANNELS, (3, 3), use_bias=False, dtype=self.dtype, name="conv1")
        h = biased_convolution(stem, x, FixupBias(full, name="bias1")(), self.dtype)
        for stage, stride in enumerate((1, 2, 2)):
            h = FixupStage(
                channels=STEM_CHANNELS * self.widen * 2**stage,
                stride=stride,
                n_stage_blocks=n_stage_blocks,
                n_blocks=3 * n_stage_blocks,
                dropout=self.dropout,
                shared_dropout=self.shared_dropout,
                dtype=self.dtype,
                name=f"block{stage + 1}",
            )(h, dropout_key)
        h = jnp.mean(nn.relu(h).astype(full), axis=(1, 2)) + FixupBias(full, name="bias2")()
        fc = dense(self.n_classes, dtype=full, kernel_init=nn.initializers.zeros, dot_general=small_product, name="fc")
        return last_layer(h, fc, returned)

    def features(self, x: Array, deterministic: bool = True) -> Array:
        return self(x, deterministic, returned="features")

    def logits_and_features(self, x: Array, deterministic: bool = True) -> tuple[Array, Array]:
        return self(x, deterministic, returned="both")


def blocks_per_stage(depth: int) -> int:
    """m of a wide ResNet of depth 6m + 4."""
    if depth < 10 or depth % 6 != 4:
        lower = max(10, depth - (depth - 4) % 6)
        near = f"{lower} or {lower + 6}" if depth > 10 else "10"
        raise InputError(f"A wide ResNet's depth is 10, 16, 22, 28, …, not {depth}; try {near}.")
    return (depth - 4) // 6


@checked
def wide_resnet(
    n_classes: int,
    depth: int = 22,
    widen: int = 4,
    dropout: float = 0.3,
    shared_dropout: bool = False,
    dtype: Any = "auto",
) -> Model:
    """A Fixup wide ResNet, WRN-`depth`-`widen`.

    Args:
      n_classes: length of the logits.
      depth: of the network: 10, 16, 22, 28, …
      widen: times 16, 32 and 64 channels in the three stages.
      dropout: the share of activations dropped between the two convolutions of a block, rounded to 1/256 where that
        changes it by at most a hundredth (0.3 is 0.3008), and else to 1/65536.
      shared_dropout: one dropout mask per layer for the whole batch, as the published training did, instead
        of a mask per image.
      dtype: of the convolutions; "auto" is bfloat16 on a GPU and float32 elsewhere. The last layer and the logits are
        float32 in any case.
    """
    depth = check_whole(depth, "depth")
    blocks_per_stage(depth)
    options = {
        "depth": depth,
        "widen": check_whole(widen, "widen"),
        "dropout": check_positive(dropout, "dropout", zero_allowed=True, below=1),
        "shared_dropout": check_flag(shared_dropout, "shared_dropout"),
        "dtype": dtype_name(dtype),
    }
    return built_in("wide_resnet", FixupWideResNet, n_classes, options)
