"""Curves: a score against whatever was varied, with intervals over seeds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.report.page import Gallery, Paragraph, Picture, Section
from nu_ensembles.report.svg import new_axes
from nu_ensembles_studies.declare.study import Row
from nu_ensembles_studies.pages.figures import colour_of, without_spines
from nu_ensembles_studies.pages.names_and_cells import place_name
from nu_ensembles_studies.results.intervals import BY_KEY, Metric, interval_of
from nu_ensembles_studies.results.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SHOWN = ("accuracy", "ece", "nll")
HOW_TO_READ = "Lines are means over seeds, bands 95 % intervals (none for one seed)."


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """One curve: positions `[X]` and values `[X, S]`, nan where missing."""

    label: str
    method: str
    x: Sequence[float]
    values: np.ndarray

    @property
    def is_curve(self) -> bool:
        """Whether there is anything to draw at more than one position."""
        return int(np.isfinite(self.values).any(axis=1).sum()) > 1


def curves_section(
    title: str,
    text: str,
    groups: Mapping[str, Sequence[Row]],
    series_of: Callable[[Sequence[Row], str], Iterable[Series]],
    xlabel: str,
    metrics: Sequence[str] = SHOWN,
    *,
    log: bool = False,
) -> Section | None:
    """A gallery for each group of rows, a picture for each metric.

    A group with a single position along the curve has nothing to show; its scores stand in the tables.

    Args:
      groups: rows by the name of their group.
      series_of: rows and a metric -> curves.
    """
    galleries = []
    for name, rows in groups.items():
        pictures = []
        for key in metrics:
            series = [each for each in series_of(rows, key) if each.is_curve]
            if series:
                metric = BY_KEY[key]
                alt = "; ".join(f"{s.label}: {_in_words(s, metric)}" for s in series)
                caption = metric.title + _not_drawn(series)
                pictures.append(Picture(_plot(series, metric, xlabel, log), caption, f"{name}. {alt}."))
        if pictures:
            galleries.append(Gallery(pictures, title=name))
    return Section(title, [Paragraph(f"{text} {HOW_TO_READ}"), *galleries]) if galleries else None


def by_place(results: Results) -> dict[str, list[Row]]:
    """The rows of each place, by its name and protocol."""
    return {f"{place_name(place)} ({place.protocol})": results.at(place) for place in results.places()}


def _plot(series: Sequence[Series], metric: Metric, xlabel: str, log: bool) -> Axes:
    """Means over seeds as lines, 95 % intervals as bands."""
    ax = new_axes(4.4, 3.3)
    for each in series:
        intervals = [interval_of(values) for values in each.values]
        mean = metric.scale * np.array([interval.mean for interval in intervals])
        half = metric.scale * np.array([interval.half_width for interval in intervals])
        mean[~np.isfinite(mean)] = np.nan
        colour = colour_of(each.method)
        ax.plot(each.x, mean, color=colour, marker="o", markersize=3.5, linewidth=1.4, label=each.label)
        ax.fill_between(each.x, mean - half, mean + half, color=colour, alpha=0.18, linewidth=0)
    if log:
        ax.set_xscale("log")
        positions = sorted({x for each in series for x in each.x})
        ax.set_xticks(positions, [f"{x:g}" for x in positions])
        ax.minorticks_off()
    ax.set(xlabel=xlabel, ylabel=metric.title)
    ax.legend(frameon=False, fontsize=8)
    without_spines(ax, "top", "right")
    return ax


def _not_drawn(series: Sequence[Series]) -> str:
    """Whose means are infinite somewhere, so that a curve or a part of it is not there."""
    infinite = [each.label for each in series if np.isinf(each.values).any()]
    return f"; {', '.join(infinite)}: not drawn where a seed's is infinite" if infinite else ""


def _in_words(series: Series, metric: Metric) -> str:
    points = zip(series.x, series.values, strict=True)
    return ", ".join(f"{x:g}: {metric.text(interval_of(values))}" for x, values in points)
