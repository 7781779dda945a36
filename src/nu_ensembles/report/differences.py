"""Paired differences between ways to train, as points with intervals around a line at zero."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.report.figures import ACCENT, INK, SOFT
from nu_ensembles.report.svg import new_axes
from nu_ensembles.studies.comparison import Comparison, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def difference_plot(comparison: Comparison, metric: Metric, ax: Axes | None = None, *, show_rows: bool = True) -> Axes:
    """Difference of every row to the reference row: each seed as a small dot, the mean with its interval.

    Args:
      comparison: rows measured on the same seeds.
      metric: which score.
      ax: where to draw; None makes a new figure.
      show_rows: name the rows on the vertical axis.
    """
    rows = [row for row in comparison.rows if row != comparison.reference]
    ax = new_axes(4.6, 0.9 + 0.36 * len(rows)) if ax is None else ax
    at_zero = comparison.values(comparison.reference, metric.key)
    ax.axvline(0.0, color=INK, linewidth=0.8, linestyle=":")
    for place, row in enumerate(reversed(rows)):
        by_seed = metric.scale * (comparison.values(row, metric.key) - at_zero)
        interval = comparison.difference(row, metric.key)
        ax.scatter(by_seed, np.full(len(by_seed), place), s=9, color=SOFT, zorder=2)
        if np.isfinite(interval.half_width):
            ends = metric.scale * (interval.mean + np.array([-1.0, 1.0]) * interval.half_width)
            ax.plot(ends, [place, place], color=ACCENT, linewidth=1.6, zorder=3)
        ax.scatter([metric.scale * interval.mean], [place], s=26, color=ACCENT, zorder=4)
    names = [comparison.rows[row] for row in reversed(rows)]
    ax.set_yticks(np.arange(len(rows)), names if show_rows else [""] * len(rows))
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(-0.6, len(rows) - 0.4)
    ax.set_title(f"difference in {metric.title}", fontsize=10)
    ax.set_xlabel(f"against “{comparison.rows[comparison.reference]}”", fontsize=9)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    return ax
