"""Filters over a batch of images: shifted sums, Gaussian smoothing, motion and zoom.

They repeat the arithmetic of the programs behind the published arrays closely enough for equal levels.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy import ndimage

from nu_ensembles.corruptions.levels import Floats, Images


def smooth(unit: Floats, deviation: float, mode: str = "nearest", truncate: float = 4.0) -> Floats:
    """Gaussian smoothing of height and width, `[N, H, W]` or `[N, H, W, C]`."""
    for axis in (1, 2):
        # What is left of the kernel below this deviation is its centre.
        if int(truncate * deviation + 0.5) > 0:
            unit = ndimage.gaussian_filter1d(unit, deviation, axis=axis, mode=mode, truncate=truncate)
    return unit


def correlate(unit: Floats, kernel: Floats) -> Floats:
    """Correlates `[N, H, W, C]` with a kernel of odd sides; the border reflects without repeating the edge."""
    up, left = kernel.shape[0] // 2, kernel.shape[1] // 2
    height, width = unit.shape[1:3]
    rows, columns = mirror(np.arange(-up, height + up), height), mirror(np.arange(-left, width + left), width)
    padded = unit[:, rows][:, :, columns]
    total = np.zeros_like(unit)
    for (row, column), weight in np.ndenumerate(kernel):
        if weight:
            total += weight * padded[:, row : row + height, column : column + width]
    return total


def mirror(index: np.ndarray, length: int) -> np.ndarray:
    """Reflects indices into 0 … length-1 about the centres of the first and the last pixel."""
    if length == 1:
        return np.zeros_like(index)
    period = 2 * length - 2
    return (length - 1) - np.abs(index % period - (length - 1))


def disk_kernel(radius: float, deviation: float) -> Floats:
    """A normalised disk, softened by a 3×3 Gaussian; a radius below one is a single pixel."""
    reach = int(radius)
    y, x = np.mgrid[-reach : reach + 1, -reach : reach + 1]
    disk = np.pad((x**2 + y**2 <= radius**2).astype(np.float32), 1)
    disk /= disk.sum()
    side = math.exp(-1 / (2 * deviation**2))
    gauss = (np.array([side, 1, side]) / (1 + 2 * side)).astype(np.float32)
    for axis in (1, 0):
        disk = ndimage.correlate1d(disk, gauss, axis=axis, mode="constant")
    return disk


def motion(images: Images, angles: Floats, radius: float, deviation: float) -> Images:
    """Smears each image of `[N, H, W, C]` along its own direction, as ImageMagick's motion blur does.

    The kernel is one-sided: tap i = 0 … 2*radius weighs exp(-i²/2σ²) and lies i pixels away, rounded to the grid;
    beyond the border the edge goes on. `angles` `[N]` are in degrees.
    """
    height, width = images.shape[1:3]
    distance = np.arange(2 * int(radius) + 1)
    weights = np.exp(-(distance**2) / (2.0 * deviation**2))
    weights /= weights.sum()
    direction = np.deg2rad(angles)[:, None]
    right = np.ceil(distance * np.cos(direction) - 0.5).astype(np.intp)
    down = np.ceil(distance * np.sin(direction) - 0.5).astype(np.intp)
    reach = int(distance[-1])
    rows = np.clip(np.arange(-reach, height + reach), 0, height - 1)
    columns = np.clip(np.arange(-reach, width + reach), 0, width - 1)
    total = np.zeros(images.shape, np.float64)
    for smeared, image, dx, dy in zip(total, images.astype(np.float64), right, down, strict=True):
        # Image by image: slices of a padded image are faster than gathering the pixels of a batch.
        padded = image[rows[:, None], columns]
        for weight, top, left in zip(weights, reach + dy, reach + dx, strict=True):
            smeared += weight * padded[top : top + height, left : left + width]
    # ImageMagick computes with 16 bits a channel: 257 times the level, rounded, and cut back to 8 bits.
    return (np.floor(total * 257 + 0.5) // 257).astype(np.uint8)


@functools.lru_cache(maxsize=256)
def zoom_matrix(length: int, factor: float) -> Floats:
    """The `[length, length]` matrix that magnifies a row of pixels about its centre, by linear interpolation.

    The centre crop of ceil(length / factor) pixels becomes round(crop * factor), end points on end points, of which
    the centre is kept.
    """
    crop = math.ceil(length / factor)
    start = (length - crop) // 2
    enlarged = max(round(crop * factor), length)
    trim = (enlarged - length) // 2
    step = (crop - 1) / (enlarged - 1) if enlarged > 1 else 0.0
    position = (np.arange(length) + trim) * step
    below = np.minimum(np.floor(position).astype(np.intp), crop - 1)
    above = np.minimum(below + 1, crop - 1)
    share = position - below
    matrix = np.zeros((length, length))
    np.add.at(matrix, (np.arange(length), start + below), 1 - share)
    np.add.at(matrix, (np.arange(length), start + above), share)
    return matrix


def zoom(layers: Floats, factor: float) -> Floats:
    """Magnifies `[…, H, W]` about the centre."""
    return zoom_matrix(layers.shape[-2], factor) @ layers @ zoom_matrix(layers.shape[-1], factor).T
