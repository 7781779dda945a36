"""Between the 256 levels of an image and the unit interval on which the corruptions are defined."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike, NDArray

Images = NDArray[np.uint8]
Floats = NDArray[np.floating]

# Weights of red, green and blue in the luminance of ITU-R BT.601.
LUMINANCE = (0.299, 0.587, 0.114)


def to_unit(images: Images, dtype: DTypeLike = np.float64) -> Floats:
    """Levels 0 … 255 to 0 … 1, in the precision of `dtype`."""
    return np.asarray(images, dtype) / np.asarray(255, dtype)


def to_levels(unit: Floats) -> Images:
    """Clips to 0 … 1 and truncates to levels; the published arrays are truncated, not rounded."""
    return (np.clip(unit, 0, 1) * 255).astype(np.uint8)


def grey(unit: Floats) -> Floats:
    """Luminance of each pixel, `[N, H, W, C]` -> `[N, H, W, 1]`; a grey image is its own."""
    if unit.shape[-1] == 1:
        return unit
    red, green, blue = (np.asarray(weight, unit.dtype) for weight in LUMINANCE)
    # Red comes last: of nine ways to round this in float32, the one that gives the published sums over 512 images.
    return (unit[..., 0] * red + (unit[..., 1] * green + unit[..., 2] * blue))[..., None]


def in_colours_of(images: Images, colour: tuple[float, float, float]) -> NDArray[np.float64]:
    """A colour with as many channels as the images have: itself, or `[1]` its luminance."""
    return np.array(colour if images.shape[-1] == 3 else [np.dot(colour, LUMINANCE)], np.float64)
