"""Maps: a score over two things that were varied, as coloured cells with their numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.report.heatmap import ON_DARK, ON_LIGHT
from nu_ensembles.report.svg import new_axes
from nu_ensembles_studies.pages.figures import without_spines

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def number_map(
    values: np.ndarray,
    columns: Sequence[str],
    rows: Sequence[str],
    *,
    digits: int,
    diverging: bool = False,
    coloured: np.ndarray | None = None,
) -> Axes:
    """Values `[rows, columns]` in coloured cells, empty where they are nan.

    Args:
      diverging: centre the colours at zero.
      coloured: bool `[rows, columns]`; other cells of a diverging map have the colour of zero.
    """
    ax = new_axes(1.4 + 0.5 * len(columns), 1.1 + 0.3 * len(rows))
    if np.isnan(values).all():
        low, high = 0.0, 1.0
    elif diverging:
        high = max(float(np.nanmax(np.abs(values))), 1e-9)
        low = -high
    else:
        low, high = float(np.nanmin(values)), float(np.nanquantile(values, 0.9))
    high = high if high > low else low + 1e-9
    edges = np.arange(values.shape[1] + 1) - 0.5, np.arange(values.shape[0] + 1) - 0.5
    shades = values if coloured is None else np.where(coloured | np.isnan(values), values, 0.0)
    ax.pcolormesh(*edges, shades, cmap="RdBu_r" if diverging else "viridis", vmin=low, vmax=high)
    for row, column in np.argwhere(~np.isnan(values)):
        share = (shades[row, column] - low) / (high - low)
        dark = abs(share - 0.5) > 0.3 if diverging else share < 0.55
        text = f"{np.round(values[row, column], digits) + 0.0:.{digits}f}".replace("-", "−")
        ax.text(column, row, text, ha="center", va="center", fontsize=7, color=ON_DARK if dark else ON_LIGHT)
    ax.set_xticks(range(len(columns)), columns)
    ax.set_yticks(range(len(rows)), rows)
    ax.tick_params(labelsize=8, length=0)
    without_spines(ax, *ax.spines)
    return ax
