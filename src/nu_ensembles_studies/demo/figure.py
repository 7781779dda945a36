"""Differences between ways to train as points with intervals; and the README's figure, which has them.

    python -m nu_ensembles_studies.demo.figure docs/images/demo.svg [FOLDER]

FOLDER holds the results of a demo; without it the demo is run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles import storage
from nu_ensembles.errors import InputError
from nu_ensembles.report.figures import ACCENT, INK, SOFT, reliability_diagram
from nu_ensembles.report.svg import new_axes, png_bytes, svg_bytes
from nu_ensembles_studies.demo.comparison import Comparison
from nu_ensembles_studies.demo.deployment import TITLE
from nu_ensembles_studies.demo.result import DemoResult
from nu_ensembles_studies.pages.figures import without_spines
from nu_ensembles_studies.results.intervals import BY_KEY, Metric

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RELIABILITY = ("standard_last", "nu_fixed", "nu_auto")
# Beside the deployment's two.
BESIDE = ("standard_last", "nu_auto")


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
    without_spines(ax, "top", "right", "left")
    return ax


def demo_figure(result: DemoResult) -> Figure:
    """Reliability diagrams over all splits, those of the deployment first, above the differences in NLL and ECE."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    halves = figure.add_gridspec(2, 1, height_ratios=(1.55, 1.0))
    above, below = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
    drawn = [(result.comparison, row, "", result.pooled(row)) for row in RELIABILITY]
    act = result.deployment
    if act is not None:
        drawn = [(act.comparison, row, f"{TITLE}: ", act.pooled(row)) for row in act.comparison.rows]
        drawn += [(result.comparison, row, "same place: ", result.pooled(row)) for row in BESIDE]
    for axes, (comparison, row, where, predicted) in zip(above.subplots(1, len(drawn)), drawn, strict=True):
        title = f"{where}\n{comparison.rows[row]}\nECE {comparison.mean(row, 'ece').text()}"
        reliability_diagram(*predicted, axes, interval=None, title=title.strip())
    left, right = below.subplots(1, 2, width_ratios=(1, 1))
    difference_plot(result.comparison, BY_KEY["nll"], left)
    difference_plot(result.comparison, BY_KEY["ece"], right, show_rows=False)
    return figure


def main(arguments: list[str]) -> None:
    if len(arguments) not in (1, 2) or Path(arguments[0]).suffix not in (".svg", ".png"):
        raise InputError("Give the .svg or .png file to write, and optionally the folder of a finished demo.")
    if len(arguments) == 2:
        result = DemoResult.load(arguments[1])
    else:
        from nu_ensembles_studies.demo.run import run_demo

        result = run_demo()
    write_figure(arguments[0], demo_figure(result))


def write_figure(path: str | Path, figure: Figure) -> None:
    """Writes an SVG or PNG file; the same figure gives the same bytes."""
    write = svg_bytes if Path(path).suffix == ".svg" else png_bytes
    storage.write_bytes(path, write(figure))


if __name__ == "__main__":
    main(sys.argv[1:])
