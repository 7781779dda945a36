"""Ice on a window, drawn by the program: five periodic textures in place of the published photographs.

Feathers of ice (a stem, barbs at an acute angle, barbs on the barbs) grow over a cloudy ground; five pairs of colours
follow the photographs in which frost was published: dark, slate, teal and two pale ones.
"""

from __future__ import annotations

import functools

import numpy as np
from PIL import Image, ImageDraw
from scipy import ndimage

from nu_ensembles.corruptions.levels import LUMINANCE, Floats

N_TEXTURES = 5
TEXTURE_SIZE = 256
# Feathers are drawn larger and averaged, which smooths their lines.
_ENLARGED = 3
# Mean colour, and how far the ground, the feathers and the grain move it.
_PALETTE: tuple[tuple[tuple[int, int, int], float, float, float], ...] = (
    ((84, 97, 110), 12, 34, 8),
    ((126, 144, 153), 12, 24, 8),
    ((196, 199, 212), 14, 18, 7),
    ((204, 207, 218), 16, 17, 7),
    ((86, 150, 166), 12, 17, 4),
)


@functools.lru_cache(maxsize=N_TEXTURES)
def texture(which: int) -> Floats:
    """Texture number 0 … 4: levels 0 … 255 `[256, 256, 3]`, periodic in both directions."""
    # The legacy generator: its stream is promised never to change.
    source = np.random.RandomState(which)
    colour, ground, feathers, grain = _PALETTE[which]
    height = (
        ground * _clouds(source, 24.0)
        + feathers * _standardised(_feathers(source))
        + grain * _standardised(source.normal(size=(TEXTURE_SIZE, TEXTURE_SIZE)))
    )
    # Thick ice is white whatever lies below: light parts lose their colour.
    white = np.clip(height / 150, 0, 1)[..., None]
    ice = np.array(colour) + height[..., None]
    levels = np.clip(ice * (1 - white) + 255 * white, 0, 255)
    levels.flags.writeable = False  # shared by all callers
    return levels


def crop_of(which: int, top: int, left: int, height: int, width: int, channels: int) -> Floats:
    """A piece `[height, width, channels]` of a texture, which goes on beyond its border."""
    rows, columns = np.arange(top, top + height) % TEXTURE_SIZE, np.arange(left, left + width) % TEXTURE_SIZE
    piece = texture(which)[rows[:, None], columns]
    return piece if channels == 3 else (piece @ np.array(LUMINANCE))[..., None]


def _clouds(source: np.random.RandomState, scale: float) -> Floats:
    """Smooth noise of mean 0 and deviation 1."""
    noise = source.normal(size=(TEXTURE_SIZE, TEXTURE_SIZE))
    return _standardised(ndimage.gaussian_filter(noise, scale, mode="wrap"))


def _standardised(field: Floats) -> Floats:
    return (field - field.mean()) / field.std()


def _feathers(source: np.random.RandomState) -> Floats:
    """A dense growth of ice feathers, the later ones on top of the earlier and brighter: `[256, 256]`."""
    side, margin = TEXTURE_SIZE * _ENLARGED, TEXTURE_SIZE * _ENLARGED // 2
    canvas = Image.new("L", (side + 2 * margin, side + 2 * margin))
    pen = ImageDraw.Draw(canvas)
    # Neighbours point in similar directions, as on a pane that froze from one side.
    wind = 2.2 * _clouds(source, 40.0)
    for layer in range(3):
        for _ in range(190):
            x, y = source.uniform(0, TEXTURE_SIZE, 2)
            angle = wind[int(y), int(x)] + source.normal(scale=0.35)
            start = np.array([x, y]) * _ENLARGED + margin
            shade = 90 + 55 * layer + source.uniform(-25, 25)
            _grow(pen, source, start, angle, _ENLARGED * source.uniform(14, 40), shade, 2)
    levels = np.asarray(canvas, np.float64)
    folded = np.zeros((side, side))
    # What grew over the border comes back on the other side, so that the texture has no seam.
    for rows in _thirds(side, margin):
        for columns in _thirds(side, margin):
            part = levels[rows[0], columns[0]]
            target = folded[rows[1], columns[1]]
            np.maximum(target, part, out=target)
    return folded.reshape(TEXTURE_SIZE, _ENLARGED, TEXTURE_SIZE, _ENLARGED).mean(axis=(1, 3))


def _thirds(side: int, margin: int) -> tuple[tuple[slice, slice], ...]:
    """Pairs (place on the canvas, place in the texture) for the centre and the two margins."""
    return (
        (slice(margin, margin + side), slice(0, side)),
        (slice(0, margin), slice(side - margin, side)),
        (slice(margin + side, None), slice(0, margin)),
    )


def _grow(
    pen: ImageDraw.ImageDraw,
    source: np.random.RandomState,
    start: Floats,
    angle: float,
    length: float,
    shade: float,
    generations: int,
) -> None:
    """Draws a stem from `start` and, for each generation, barbs on both sides that shorten towards the tip."""
    bend = source.normal(scale=0.25)
    n_joints = max(int(length / (2.6 * _ENLARGED)), 1)
    point = start
    for joint in range(n_joints):
        heading = angle + bend * joint / n_joints
        end = point + length / n_joints * np.array([np.cos(heading), np.sin(heading)])
        pen.line([*map(float, point), *map(float, end)], fill=int(shade), width=generations)
        if generations:
            barb = 0.42 * length * (1 - joint / n_joints) * source.uniform(0.6, 1.1)
            for side in (-1, 1):
                if barb > 2 * _ENLARGED:
                    _grow(pen, source, end, heading + side * 0.95, barb, 0.9 * shade, generations - 1)
        point = end
