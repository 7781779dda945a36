"""A contact sheet: one image under every corruption, a row for each type and a column for each severity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.corruptions import NAMES, corrupt
from nu_ensembles.corruptions.suite import check_images
from nu_ensembles.errors import InputError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_GAP = 2
_MARGIN = ((0, _GAP), (0, _GAP), (0, 0))
_WHITE = 255
_INCHES_A_TILE = 0.62
_INCHES_FOR_NAMES = 1.35


def sheet_pixels(
    images: ArrayLike, names: Sequence[str] = NAMES, severities: Sequence[int] = (1, 2, 3, 4, 5), seed: int = 0
) -> np.ndarray:
    """The tiles of the sheet as one image.

    Args:
      images: uint8 `[N, H, W, C]`; each is shown beside the other, clean first, then by severity.
      names: corruptions, one a row.
      severities: one a column for each image.
      seed: of the corruptions.

    Returns:
      uint8 `[rows, columns, C]`, tiles with white gaps between them.
    """
    images = check_images(images)
    if not len(images) or not names:
        raise InputError("A contact sheet needs at least one image and one corruption: give some.")
    rows = []
    for name in names:
        versions = [images, *(corrupt(images, name, severity, seed) for severity in severities)]
        tiles = [version[index] for index in range(len(images)) for version in versions]
        rows.append(np.concatenate([np.pad(tile, _MARGIN, constant_values=_WHITE) for tile in tiles], axis=1))
    return np.concatenate(rows)


def contact_sheet(
    images: ArrayLike,
    names: Sequence[str] = NAMES,
    severities: Sequence[int] = (1, 2, 3, 4, 5),
    seed: int = 0,
    ax: Axes | None = None,
) -> Axes:
    """Draws the sheet with the names of the corruptions and the severities.

        report.svg.png_bytes(contact_sheet(test_images[:2]))

    Args:
      images: uint8 `[N, H, W, C]`, a few.
      names: corruptions, one a row.
      severities: one a column for each image.
      seed: of the corruptions.
      ax: where to draw; None makes a new figure.
    """
    from nu_ensembles.report.svg import new_axes

    pixels = sheet_pixels(images, names, severities, seed)
    n_images, height, width, channels = np.shape(images)
    n_columns = n_images * (len(severities) + 1)
    if ax is None:
        ax = new_axes(
            _INCHES_FOR_NAMES + _INCHES_A_TILE * n_columns, 0.35 + _INCHES_A_TILE * len(names) * height / width
        )
    ax.imshow(pixels if channels == 3 else pixels[..., 0], cmap="gray", vmin=0, vmax=_WHITE, interpolation="nearest")
    columns = np.arange(n_columns) * (width + _GAP) + width / 2 - 0.5
    ax.set_xticks(columns, ["clean", *map(str, severities)] * n_images)
    ax.set_yticks(np.arange(len(names)) * (height + _GAP) + height / 2 - 0.5, [n.replace("_", " ") for n in names])
    ax.xaxis.tick_top()
    ax.set_anchor("E")
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    return ax
