"""Hue, saturation and value of colours (Smith, 1978), with the operations in the order that published arrays have."""

from __future__ import annotations

import numpy as np

from nu_ensembles.corruptions.levels import Floats


def to_hsv(unit: Floats) -> tuple[Floats, Floats, Floats]:
    """Hue in turns, saturation and value, each `[N, H, W]`, of `[N, H, W, C]`; where a pixel is grey, hue is 0."""
    value = unit.max(axis=-1)
    if unit.shape[-1] == 1:
        return np.zeros_like(value), np.zeros_like(value), value
    red, green, blue = np.moveaxis(unit, -1, 0)
    spread = value - unit.min(axis=-1)
    coloured = spread > 0
    divisor = np.where(coloured, spread, 1.0)
    # Where channels share the largest value, the last of them counts.
    sixths = np.where(
        blue == value,
        4.0 + (red - green) / divisor,
        np.where(green == value, 2.0 + (blue - red) / divisor, (green - blue) / divisor),
    )
    hue = np.where(coloured, (sixths / 6.0) % 1.0, 0.0)
    return hue, np.where(coloured, spread / np.where(coloured, value, 1.0), 0.0), value


def from_hsv(hue: Floats, saturation: Floats, value: Floats, n_channels: int) -> Floats:
    """The colours `[N, H, W, n_channels]` of hue, saturation and value."""
    if n_channels == 1:
        return value[..., None]
    sector = np.floor(hue * 6)
    part = hue * 6 - sector
    low = value * (1 - saturation)
    falling = value * (1 - part * saturation)
    rising = value * (1 - (1 - part) * saturation)
    number = sector.astype(np.intp) % 6
    red = np.choose(number, [value, falling, low, low, rising, value])
    green = np.choose(number, [rising, value, value, falling, low, low])
    blue = np.choose(number, [low, low, rising, value, value, falling])
    return np.stack([red, green, blue], axis=-1)
