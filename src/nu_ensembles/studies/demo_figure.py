"""Draws the README's figure: how reliable the demo's ensembles are, and what each gains.

    python -m nu_ensembles.studies.demo_figure docs/images/demo.svg [FOLDER]

FOLDER holds the results of a demo; without it the demo is run.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from nu_ensembles import storage
from nu_ensembles.errors import InputError
from nu_ensembles.studies.comparison import METRICS
from nu_ensembles.studies.demo_result import DemoResult

if TYPE_CHECKING:
    from matplotlib.figure import Figure

RELIABILITY = ("standard_last", "nu_fixed", "nu_auto")


def demo_figure(result: DemoResult) -> Figure:
    """Three reliability diagrams over all splits, above the differences in NLL and ECE."""
    from matplotlib.figure import Figure

    from nu_ensembles.report.differences import difference_plot
    from nu_ensembles.report.figures import reliability_diagram

    figure = Figure(figsize=(9.6, 6.4), layout="constrained")
    halves = figure.add_gridspec(2, 1, height_ratios=(1.55, 1.0))
    above, below = figure.add_subfigure(halves[0]), figure.add_subfigure(halves[1])
    for axes, row in zip(above.subplots(1, len(RELIABILITY)), RELIABILITY, strict=True):
        ece = result.comparison.mean(row, "ece").text()
        title = f"{result.comparison.rows[row]}\nECE {ece}"
        reliability_diagram(*result.pooled(row), axes, interval=None, title=title)
    left, right = below.subplots(1, 2, width_ratios=(1, 1))
    by_key = {metric.key: metric for metric in METRICS}
    difference_plot(result.comparison, by_key["nll"], left)
    difference_plot(result.comparison, by_key["ece"], right, show_rows=False)
    return figure


def main(arguments: list[str]) -> None:
    if len(arguments) not in (1, 2) or Path(arguments[0]).suffix not in (".svg", ".png"):
        raise InputError("Give the .svg or .png file to write, and optionally the folder of a finished demo.")
    if len(arguments) == 2:
        result = DemoResult.load(arguments[1])
    else:
        from nu_ensembles.studies.demo import run_demo

        result = run_demo()
    write_figure(arguments[0], demo_figure(result))


def write_figure(path: str | Path, figure: Figure) -> None:
    """Writes an SVG or PNG file; the same figure gives the same bytes."""
    from nu_ensembles.report.svg import png_bytes, svg_bytes

    write = svg_bytes if Path(path).suffix == ".svg" else png_bytes
    storage.write_bytes(path, write(figure))


if __name__ == "__main__":
    main(sys.argv[1:])
