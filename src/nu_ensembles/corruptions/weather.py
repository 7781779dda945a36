"""Weather: snow, frost and fog. Brightness, the fourth of the published group, is with the colours in `digital`."""

from __future__ import annotations

import numpy as np

from nu_ensembles.corruptions.filters import motion, zoom
from nu_ensembles.corruptions.frost_texture import N_TEXTURES, TEXTURE_SIZE, crop_of
from nu_ensembles.corruptions.levels import Floats, Images, grey, to_levels, to_unit
from nu_ensembles.corruptions.plasma import draw_plasma, plasma
from nu_ensembles.corruptions.sources import Source, integers


def draw_snow(source: Source, image: Images, mean: float, deviation: float, *_: float) -> tuple[Floats, float]:
    """A normal deviate for every pixel, and the direction in degrees in which the flakes fall."""
    return source.normal(loc=mean, scale=deviation, size=image.shape[:2]), source.uniform(-135, -45)


def snow(
    images: Images,
    flakes: Floats,
    angles: Floats,
    mean: float,
    deviation: float,
    magnification: float,
    threshold: float,
    radius: float,
    smear: float,
    keep: float,
) -> Images:
    """Whitens the scene and lets flakes fall through it.

    Noise above a threshold becomes flakes, smeared along the wind; they are added twice, the second time turned by
    180 degrees. The image keeps the share `keep` of its colours.
    """
    layer = zoom(flakes, magnification)
    layer = np.where(layer < threshold, 0.0, layer)
    layer = to_unit(motion(to_levels(layer)[..., None], angles, radius, smear))
    unit = to_unit(images, np.float32)
    white = np.maximum(unit, grey(unit) * np.float32(1.5) + np.float32(0.5))
    scene = np.float32(keep) * unit + np.float32(1 - keep) * white
    return to_levels(scene + layer + layer[:, ::-1, ::-1])


def draw_frost(source: Source, image: Images, *_: float) -> tuple[int, int, int]:
    """Which texture, and the top left corner of the piece that covers the image."""
    height, width = image.shape[:2]
    which = integers(source, 0, N_TEXTURES)
    top = integers(source, 0, max(TEXTURE_SIZE - height, 1))
    left = integers(source, 0, max(TEXTURE_SIZE - width, 1))
    return int(which), int(top), int(left)


def frost(
    images: Images, which: np.ndarray, top: np.ndarray, left: np.ndarray, scene_weight: float, ice_weight: float
) -> Images:
    """Lays a piece of a frozen window over the image."""
    _, height, width, channels = images.shape
    corners = zip(which, top, left, strict=True)
    ice = np.stack([crop_of(int(n), int(y), int(x), height, width, channels) for n, y, x in corners])
    return np.clip(scene_weight * images.astype(np.float64) + ice_weight * ice, 0, 255).astype(np.uint8)


def draw_fog(source: Source, image: Images, thickness: float, decay: float) -> tuple[Floats]:
    """What the plasma map of the image needs."""
    return (draw_plasma(source, max(image.shape[:2]), decay),)


def fog(images: Images, wobble: Floats, thickness: float, decay: float) -> Images:
    """Adds a plasma cloud and brings the brightest value back to where it was."""
    height, width = images.shape[1:3]
    unit = to_unit(images)
    brightest = unit.max(axis=(1, 2, 3), keepdims=True)
    clouds = plasma(wobble, max(height, width))[:, :height, :width, None]
    return to_levels((unit + thickness * clouds) * brightest / (brightest + thickness))
