"""Augmentation of images on the device: flip, pad, crop, drawn anew for every image in every step.

An augmentation is any hashable callable `(key, images [B, H, W, C]) -> images`; it runs inside the training
step, on one member's batch.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.errors import InputError, unknown_name

Augmentation = Callable[[Array, Array], Array]
# Random bits that decide on an offset.
OFFSET_BITS = 15


@dataclasses.dataclass(frozen=True)
class FlipAndCrop:
    """Horizontal flip with probability one half, zero padding, and a crop of the original size.

    Attributes:
      padding: pixels on each side.
      published_offsets: draw offsets from 0 … 2*padding-1, as the paper's code does, which never takes the last
        one; the default draws from all 2*padding+1.
    """

    padding: int = 4
    published_offsets: bool = False

    def __call__(self, key: Array, images: Array) -> Array:
        if images.ndim == 3:  # without an axis of channels
            return self(key, images[..., None])[..., 0]
        n, height, width, channels = images.shape
        n_offsets = 2 * self.padding + (0 if self.published_offsets else 1)
        # One random word an image. Draws of their own would be four times the operations to compile.
        word = jax.random.bits(key, (n,), jnp.uint32)
        flip, top, left = word >> 30 & 1, _below(n_offsets, word >> OFFSET_BITS), _below(n_offsets, word)
        images = jnp.where(flip.astype(bool)[:, None, None, None], images[:, :, ::-1], images)
        pad = (self.padding, self.padding)
        padded = jnp.pad(images, ((0, 0), pad, pad, (0, 0)))

        def crop(image: Array, top: Array, left: Array) -> Array:
            return jax.lax.dynamic_slice(image, (top, left, jnp.zeros_like(top)), (height, width, channels))

        return jax.vmap(crop)(padded, top, left)


def _below(limit: int, words: Array) -> Array:
    """Random numbers 0 … limit-1 from the low bits of random words; int32, likely alike but for a 2^-15th."""
    low = words & (2**OFFSET_BITS - 1)
    return (low * limit >> OFFSET_BITS).astype(jnp.int32)


AUGMENTATIONS: dict[str, Augmentation] = {"flip_crop": FlipAndCrop()}


def augmentation_of(name: str) -> Augmentation:
    """An augmentation by its name."""
    if name not in AUGMENTATIONS:
        raise unknown_name("augmentation", name, AUGMENTATIONS)
    return AUGMENTATIONS[name]


def check_augmentation(augment: Augmentation | None, row_shape: tuple[int, ...]) -> None:
    """Refuses what cannot be applied to rows of this shape, without applying it."""
    if isinstance(augment, FlipAndCrop) and len(row_shape) not in (2, 3):
        raise InputError(
            "Only images are flipped and cropped, [n, height, width] or [n, height, width, channels]; these rows have "
            f"shape {row_shape}, so leave augment out."
        )
    if augment is None or isinstance(augment, FlipAndCrop):
        return
    rows = jax.ShapeDtypeStruct((2, *row_shape), jnp.float32)
    try:
        augmented = jax.eval_shape(augment, jax.random.key(0, impl="threefry2x32"), rows)
    except Exception as error:
        raise InputError(
            f"augment must take a key and rows, and it cannot take rows of shape {row_shape}: {error}"
        ) from error
    if getattr(augmented, "shape", None) != rows.shape:
        raise InputError(f"augment must give back rows of the shape that it takes, {row_shape}, and does not.")
