"""Colour and coding: brightness, contrast, saturation, pixels and JPEG."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np

from nu_ensembles.corruptions.hsv import from_hsv, to_hsv
from nu_ensembles.corruptions.levels import Images, to_levels, to_unit


def brightness(images: Images, shift: float) -> Images:
    """Raises the value V of hue, saturation and value."""
    hue, saturation, value = to_hsv(to_unit(images))
    return to_levels(from_hsv(hue, saturation, np.clip(value + shift, 0, 1), images.shape[-1]))


def saturate(images: Images, factor: float, shift: float) -> Images:
    """Scales and shifts the saturation S of hue, saturation and value; a grey pixel, whose hue counts as 0, turns red.

    Images of one channel have no saturation and stay as they are.
    """
    if images.shape[-1] == 1:
        return images.copy()
    hue, saturation, value = to_hsv(to_unit(images))
    return to_levels(from_hsv(hue, np.clip(saturation * factor + shift, 0, 1), value, 3))


def contrast(images: Images, factor: float) -> Images:
    """Draws all values of a channel towards their mean over the image."""
    unit = to_unit(images)
    mean = unit.mean(axis=(1, 2), keepdims=True)
    return to_levels((unit - mean) * factor + mean)


def pixelate(images: Images, factor: float) -> Images:
    """Shrinks the image by averaging boxes and blows it up again."""
    from PIL import Image

    height, width = images.shape[1:3]
    small = max(int(width * factor), 1), max(int(height * factor), 1)
    box = Image.Resampling.BOX
    return _image_by_image(images, lambda image: image.resize(small, box).resize((width, height), box))


def jpeg_compression(images: Images, quality: float) -> Images:
    """Stores the image as JPEG with colours at half resolution."""
    from PIL import Image

    def through_jpeg(image: Image.Image) -> Image.Image:
        stored = io.BytesIO()
        image.save(stored, "JPEG", quality=int(quality))
        return Image.open(stored)

    return _image_by_image(images, through_jpeg)


def _image_by_image(images: Images, change: Callable) -> Images:
    """Applies a function of Pillow images to every image of `[N, H, W, C]`."""
    from PIL import Image

    changed = np.empty_like(images)
    for index, pixels in enumerate(images):
        image = Image.fromarray(pixels if images.shape[-1] == 3 else pixels[..., 0])
        changed[index] = np.asarray(change(image)).reshape(images.shape[1:])
    return changed
