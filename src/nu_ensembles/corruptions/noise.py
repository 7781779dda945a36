"""Noise on every value: Gaussian, shot, impulse and speckle.

Each corruption is a pair: `draw_*` takes what one image `[H, W, C]` needs from its random source, and the function
named after the corruption applies the draws of a batch `[N, H, W, C]`.
"""

from __future__ import annotations

import numpy as np

from nu_ensembles.corruptions.levels import Floats, Images, to_levels, to_unit
from nu_ensembles.corruptions.sources import Source


def draw_normal(source: Source, image: Images, deviation: float) -> tuple[Floats]:
    """A normal deviate for every value."""
    return (source.normal(scale=deviation, size=image.shape),)


def draw_shot(source: Source, image: Images, photons: float) -> tuple[np.ndarray]:
    """The photons that arrive at every value; full brightness is `photons` on average."""
    return (source.poisson(to_unit(image) * photons),)


def draw_impulse(source: Source, image: Images, share: float) -> tuple[Floats, Floats]:
    """Two uniform deviates for every value: is it hit, and does it turn white or black."""
    return source.uniform(size=image.shape), source.uniform(size=image.shape)


def gaussian_noise(images: Images, noise: Floats, deviation: float) -> Images:
    """Adds normal noise."""
    return to_levels(to_unit(images) + noise)


def speckle_noise(images: Images, noise: Floats, deviation: float) -> Images:
    """Adds normal noise in proportion to the value."""
    unit = to_unit(images)
    return to_levels(unit + unit * noise)


def shot_noise(images: Images, counts: np.ndarray, photons: float) -> Images:
    """Replaces every value by a photon count."""
    return to_levels(counts / float(photons))


def impulse_noise(images: Images, hit: Floats, colour: Floats, share: float) -> Images:
    """Sets a share of the values, channel by channel, to full or to none."""
    salt_or_pepper = np.where(colour < 0.5, np.uint8(255), np.uint8(0))
    return np.where(hit < share, salt_or_pepper, images)
