"""`corrupt`: any of the 19 common corruptions at one of five severities, for images of any size.

The suite of Hendrycks & Dietterich (2019) as published for CIFAR (CIFAR-10-C), rewritten without OpenCV, scikit-image
and ImageMagick.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.checks import checked, shown
from nu_ensembles.corruptions import blur, digital, elastic, noise, spatter, weather
from nu_ensembles.corruptions.levels import Images
from nu_ensembles.corruptions.severities import NAMES, SEVERITIES
from nu_ensembles.corruptions.sources import Source, image_source
from nu_ensembles.errors import InputError, unknown_name

# Images that are corrupted at once, in pixels: enough to amortise NumPy's overhead, few enough for the cache.
_PIXELS_AT_ONCE = 128 * 32 * 32


@dataclasses.dataclass(frozen=True)
class Corruption:
    """What one corruption does.

    Attributes:
      apply: `(images [N, H, W, C], *draws, *parameters) -> images`, the draws of the batch stacked along a first axis.
      draw: `(source, image [H, W, C], *parameters) -> draws` for one image; None if nothing is random.
    """

    apply: Callable[..., Images]
    draw: Callable[..., tuple[Any, ...]] | None = None


CORRUPTIONS: dict[str, Corruption] = {
    "gaussian_noise": Corruption(noise.gaussian_noise, noise.draw_normal),
    "shot_noise": Corruption(noise.shot_noise, noise.draw_shot),
    "impulse_noise": Corruption(noise.impulse_noise, noise.draw_impulse),
    "defocus_blur": Corruption(blur.defocus_blur),
    "glass_blur": Corruption(blur.glass_blur, blur.draw_glass),
    "motion_blur": Corruption(blur.motion_blur, blur.draw_motion),
    "zoom_blur": Corruption(blur.zoom_blur),
    "snow": Corruption(weather.snow, weather.draw_snow),
    "frost": Corruption(weather.frost, weather.draw_frost),
    "fog": Corruption(weather.fog, weather.draw_fog),
    "brightness": Corruption(digital.brightness),
    "contrast": Corruption(digital.contrast),
    "elastic_transform": Corruption(elastic.elastic_transform, elastic.draw_elastic),
    "pixelate": Corruption(digital.pixelate),
    "jpeg_compression": Corruption(digital.jpeg_compression),
    "speckle_noise": Corruption(noise.speckle_noise, noise.draw_normal),
    "gaussian_blur": Corruption(blur.gaussian_blur),
    "spatter": Corruption(spatter.spatter, spatter.draw_spatter),
    "saturate": Corruption(digital.saturate),
}


@checked
def corrupt(
    images: ArrayLike,
    name: str,
    severity: int = 3,
    seed: int = 0,
    *,
    first: int = 0,
    sources: Sequence[Source] | None = None,
) -> Images:
    """Corrupts every image.

        foggy = corrupt(test_images, "fog", severity=3)

    Args:
      images: uint8 `[N, H, W, C]`, colour (C = 3) or grey (C = 1).
      name: one of `NAMES`.
      severity: 1 (hardly visible) … 5.
      seed: image i gets a random stream of its own, made from the seed, the corruption, the severity and i.
      first: number of the first image: corrupting rows 100 … 199 with `first=100` gives the same images as
        corrupting all rows at once.
      sources: a NumPy `RandomState` or `Generator` for each image instead of a seed, to replay given draws.

    Returns:
      uint8 of the same shape.
    """
    images = check_images(images)
    check_choice(name, severity)
    given = isinstance(sources, Sequence) and all(isinstance(each, Source) for each in sources)
    if sources is not None and not given:
        raise InputError("sources must be a list of NumPy's RandomState or Generator, one for each image.")
    if sources is not None and len(sources) != len(images):
        raise InputError(f"There are {len(sources)} random sources for {len(images)} images: give one for each.")
    if not isinstance(seed, int | np.integer) or seed < 0:
        raise InputError(f"The seed must be a whole number from 0 on, not {shown(seed)}.")
    if not isinstance(first, int | np.integer) or first < 0:
        raise InputError(f"first must be the number of an image, from 0 on, not {shown(first)}.")
    corruption, parameters = CORRUPTIONS[name], SEVERITIES[name][severity - 1]
    kind = NAMES.index(name) + 1
    corrupted = np.empty_like(images)
    batch = max(_PIXELS_AT_ONCE // max(images.shape[1] * images.shape[2], 1), 1)
    for start in range(0, len(images), batch):
        rows = slice(start, start + batch)
        draws: list[np.ndarray] = []
        if corruption.draw is not None:
            drawn = []
            for offset, image in enumerate(images[rows], start):
                source = sources[offset] if sources else image_source(int(seed), kind, severity, int(first) + offset)
                drawn.append(corruption.draw(source, image, *parameters))
            draws = [np.stack(each) for each in zip(*drawn, strict=True)]
        corrupted[rows] = corruption.apply(images[rows], *draws, *parameters)
    return corrupted


def check_images(images: ArrayLike) -> Images:
    """Returns uint8 `[N, H, W, C]` or says what is wrong with it."""
    array = np.asarray(images)
    if array.dtype != np.uint8:
        hint = "multiply by 255 and convert" if array.dtype.kind == "f" else "convert"
        raise InputError(f"Images have dtype {array.dtype}: {hint} to uint8 levels 0 … 255.")
    if array.ndim != 4:
        raise InputError(
            f"Images have shape {array.shape}: give [images, height, width, channels]; a single image is images[None], "
            "grey images without channels are images[..., None]."
        )
    if array.shape[3] not in (1, 3):
        hint = " (channels come last)" if array.shape[1] in (1, 3) else ""
        raise InputError(f"Images have {array.shape[3]} channels{hint}: give 3 for colour or 1 for grey.")
    if 0 in array.shape[1:]:
        raise InputError(f"Images have shape {array.shape}: height and width must be at least one pixel.")
    return array


def check_choice(name: str, severity: int) -> None:
    """Refuses a corruption or a severity that does not exist."""
    if not isinstance(name, str) or name not in CORRUPTIONS:
        raise unknown_name("corruption", name, NAMES)
    if isinstance(severity, bool) or not isinstance(severity, int | np.integer) or not 1 <= severity <= 5:
        raise InputError(f"Severity must be 1, 2, 3, 4 or 5, not {shown(severity)}.")
