"""Blur: defocus, glass, motion, zoom and Gaussian."""

from __future__ import annotations

import numpy as np

from nu_ensembles.corruptions.filters import correlate, disk_kernel, motion, smooth, zoom
from nu_ensembles.corruptions.levels import Floats, Images, to_levels, to_unit
from nu_ensembles.corruptions.sources import Source, integers


def gaussian_blur(images: Images, deviation: float) -> Images:
    """Smooths each channel with a Gaussian."""
    return to_levels(smooth(to_unit(images), deviation))


def defocus_blur(images: Images, radius: float, softness: float) -> Images:
    """Spreads every pixel over a disk of some radius, whose rim is smoothed by a Gaussian of sd `softness`."""
    return to_levels(correlate(to_unit(images), disk_kernel(radius, softness)))


def draw_glass(source: Source, image: Images, deviation: float, rounds: float) -> tuple[np.ndarray]:
    """For each round and each pixel but those of the first two rows and columns, last pixel first, a step (x, y)."""
    height, width = image.shape[:2]
    size = (int(rounds), max(height - 2, 0), max(width - 2, 0), 2)
    return (integers(source, -1, 1, size=size),)


def glass_blur(images: Images, steps: np.ndarray, deviation: float, rounds: float) -> Images:
    """Smooths, lets every pixel copy itself or a neighbour above or to the left, and smooths again.

    The published program meant to swap pixels; it copies. As it runs from the last pixel to the first, a pixel's
    neighbours above and to the left still have their old values: each round is one gather.
    """
    levels = to_levels(smooth(to_unit(images), deviation))
    height, width = images.shape[1:3]
    number = np.arange(len(images))[:, None, None]
    rows, columns = np.arange(2, height)[:, None], np.arange(2, width)
    for n in range(int(rounds)):
        step = steps[:, n, ::-1, ::-1]
        levels[:, 2:, 2:] = levels[number, rows + step[..., 1], columns + step[..., 0]]
    return to_levels(smooth(to_unit(levels), deviation))


def draw_motion(source: Source, image: Images, radius: float, deviation: float) -> tuple[float]:
    """The direction in degrees."""
    return (source.uniform(-45, 45),)


def motion_blur(images: Images, angles: Floats, radius: float, deviation: float) -> Images:
    """Smears the image along a line, with a one-sided Gaussian profile."""
    return motion(images, angles, radius, deviation)


def zoom_blur(images: Images, limit: float) -> Images:
    """Averages the image with magnifications of itself, from 1 in steps of 0.01 up to the limit."""
    factors = np.arange(1, limit, 0.01)
    # Channels first, so that a magnification is two matrix products.
    planes = np.ascontiguousarray(np.moveaxis(to_unit(images, np.float32), -1, 1))
    exact = planes.astype(np.float64)
    total = np.zeros_like(planes)
    for factor in factors:
        total += zoom(exact, float(factor)).astype(np.float32)
    mean = (planes + total) / np.float32(len(factors) + 1)
    return to_levels(np.moveaxis(mean, 1, -1))
