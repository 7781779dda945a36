"""Spatter: drops of water, which bend the light at their rims, or of mud.

Water needs four classic operations on a map of drops (Canny's edges, a chamfer distance, histogram equalisation, an
emboss filter); they are in `drops`.
"""

from __future__ import annotations

import numpy as np

from nu_ensembles.corruptions.drops import relief
from nu_ensembles.corruptions.filters import smooth
from nu_ensembles.corruptions.levels import Floats, Images, in_colours_of, to_levels, to_unit
from nu_ensembles.corruptions.sources import Source

_WATER = (175 / 255, 238 / 255, 238 / 255)
_MUD = (63 / 255, 42 / 255, 20 / 255)


def draw_spatter(source: Source, image: Images, mean: float, deviation: float, *_: float) -> tuple[Floats]:
    """A normal deviate for every pixel."""
    return (source.normal(loc=mean, scale=deviation, size=image.shape[:2]),)


def spatter(
    images: Images,
    liquid: Floats,
    mean: float,
    deviation: float,
    size: float,
    threshold: float,
    strength: float,
    is_mud: float,
) -> Images:
    """Splashes the image: smoothed noise above a threshold is liquid.

    `strength` is the opacity of the brightest water, or the softness of the mud's rim.
    """
    layer = smooth(liquid, size)
    layer = np.where(layer < threshold, 0.0, layer)
    unit = to_unit(images, np.float32)
    if is_mud:
        cover = smooth((layer > threshold).astype(np.float64), strength)
        cover = np.where(cover < 0.8, 0, cover)[..., None]
        mud = (in_colours_of(images, _MUD).astype(np.float32) * cover).astype(np.float32)
        return to_levels((unit * (1 - cover)).astype(np.float32) + mud)
    drops = (layer * 255).astype(np.uint8)
    shine = drops * relief(drops)
    brightest = shine.max(axis=(1, 2), keepdims=True)
    shine = np.divide(shine, brightest, out=np.zeros_like(shine), where=brightest > 0) * np.float32(strength)
    return to_levels(unit + shine[..., None] * in_colours_of(images, _WATER).astype(np.float32))
