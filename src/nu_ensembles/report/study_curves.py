"""Curves of a study's page: a score against whatever was varied, with intervals over seeds."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.report.page import Cell, Column, Gallery, Paragraph, Picture, Section, Table
from nu_ensembles.report.study_figures import colour_of
from nu_ensembles.report.study_tables import BY_KEY, place_name
from nu_ensembles.report.svg import new_axes
from nu_ensembles.studies.comparison import Interval, Metric, student_interval
from nu_ensembles.studies.ensemble_size import TOLERANCE, by_size, plateau
from nu_ensembles.studies.results import Results
from nu_ensembles.studies.shift import SEVERITIES, by_severity
from nu_ensembles.studies.study import Row

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


def curve_plot(series: Sequence[Series], metric: Metric, xlabel: str, *, log: bool = False) -> Axes:
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
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    return ax


def interval_of(values: np.ndarray) -> Interval:
    """Mean and interval of the values `[S]` that are there."""
    present = values[~np.isnan(values)]
    return student_interval(present) if len(present) else Interval(math.nan, math.nan)


def curves_section(
    title: str,
    text: str,
    groups: Sequence[tuple[str, Callable[[str], list[Series]]]],
    xlabel: str,
    metrics: Sequence[str] = SHOWN,
    *,
    log: bool = False,
) -> Section | None:
    """A gallery for each group, a picture for each metric; a group gives the series of a metric.

    A group with a single position along the curve has nothing to show; its scores stand in the tables.
    """
    galleries = []
    for name, series_of in groups:
        pictures = []
        for key in metrics:
            series = [each for each in series_of(key) if _n_positions(each) > 1]
            if series:
                metric = BY_KEY[key]
                alt = "; ".join(f"{s.label}: {_in_words(s, metric)}" for s in series)
                caption = metric.title + _not_drawn(series)
                pictures.append(Picture(curve_plot(series, metric, xlabel, log=log), caption, f"{name}. {alt}."))
        if pictures:
            galleries.append(Gallery(pictures, title=name))
    return Section(title, [Paragraph(f"{text} {HOW_TO_READ}"), *galleries]) if galleries else None


def _n_positions(series: Series) -> int:
    """At how many positions there is anything to draw."""
    return int(np.isfinite(series.values).any(axis=1).sum())


def _not_drawn(series: Sequence[Series]) -> str:
    """Whose means are infinite somewhere, so that a curve or a part of it is not there."""
    infinite = [each.label for each in series if np.isinf(each.values).any()]
    return f"; {', '.join(infinite)}: not drawn where a seed's is infinite" if infinite else ""


def _in_words(series: Series, metric: Metric) -> str:
    points = zip(series.x, series.values, strict=True)
    return ", ".join(f"{x:g}: {metric.text(interval_of(values))}" for x, values in points)


def size_curves(results: Results) -> Section | None:
    """Accuracy, ECE and NLL against the number of labels."""
    groups = []
    for dataset, model, protocol in dict.fromkeys((r.dataset, r.model, r.protocol) for r in results.rows):
        of_group = [r for r in results.rows if (r.dataset, r.model, r.protocol) == (dataset, model, protocol)]
        sizes = sorted({row.n_train for row in of_group})

        def series_of(metric: str, of_group: list[Row] = of_group, sizes: list[int] = sizes) -> list[Series]:
            found = []
            for title, method in dict.fromkeys((row.title, row.method) for row in of_group):
                by_n = {row.n_train: results.values(row, metric) for row in of_group if row.title == title}
                x = [n for n in sizes if n in by_n]
                found.append(Series(title, method, x, np.stack([by_n[n] for n in x])))
            return found

        name = place_name((dataset, sizes[0], model, protocol)).split(", n =")[0]
        groups.append((f"{name} ({protocol})", series_of))
    text = "Only what was trained is drawn."
    return curves_section("Against the number of labels", text, groups, "labelled rows", log=True)


def severity_curves(results: Results) -> Section | None:
    """Accuracy, ECE and NLL against the severity of the corruption, averaged over corruptions."""
    groups = []
    for place in results.places():

        def series_of(metric: str, place: tuple[str, int, str, str] = place) -> list[Series]:
            of_place = [row for row in results.rows if row.place == place]
            return [Series(r.title, r.method, SEVERITIES, by_severity(results, r, metric)) for r in of_place]

        groups.append((f"{place_name(place)} ({place[3]})", series_of))
    text = "Averages over 15 corruptions; severity 0 is the clean test set."
    return curves_section("Against severity", text, groups, "severity")


def member_curves(results: Results) -> Section | None:
    """Accuracy, ECE and NLL of the first 1, 2, … members."""
    groups = []
    for place in results.places():

        def series_of(metric: str, place: tuple[str, int, str, str] = place) -> list[Series]:
            found = []
            for row in results.rows:
                if row.place == place:
                    values = by_size(results, row, metric)
                    found.append(Series(row.title, row.method, range(1, len(values) + 1), values))
            return found

        groups.append((f"{place_name(place)} ({place[3]})", series_of))
    text = "The first 1, 2, … of an ensemble's members; averaging needs several before probabilities are soft enough."
    return curves_section("Against the number of members", text, groups, "members")


def plateaus(results: Results) -> Section | None:
    """From how many members on nothing changes any more."""
    shown = [BY_KEY[key] for key in TOLERANCE]
    lines = []
    for row in results.rows:
        found = [plateau(by_size(results, row, metric.key), TOLERANCE[metric.key]) for metric in shown]
        if any(value is not None for value in found):
            cells = [Cell("–" if value is None else str(value), value or 0) for value in found]
            lines.append([Cell(f"{place_name(row.place)}: {row.title}"), Cell(row.protocol), *cells])
    if not lines:
        return None
    columns = [Column("Trained how", text=True), Column("Protocol", text=True), *(Column(m.title) for m in shown)]
    limits = ", ".join(f"{metric.title} {TOLERANCE[metric.key] * metric.scale:g}" for metric in shown)
    note = f"The least number of members from which on the mean over seeds stays this close to that of all: {limits}."
    return Section("Where more members stop helping", [Table("Plateaus", columns, lines, note=note)])


def unlabeled_curves(results: Results) -> Section | None:
    """Accuracy, ECE and NLL against the number of unlabelled rows."""
    groups = []
    for place in results.places():

        def series_of(metric: str, place: tuple[str, int, str, str] = place) -> list[Series]:
            by_m = {r.setting("m"): results.values(r, metric) for r in results.rows if r.place == place}
            x = sorted(by_m)
            return [Series("ν (0: standard)", "nu", x, np.stack([by_m[m] for m in x]))]

        groups.append((f"{place_name(place)}, {place[3]}", series_of))
    text = (
        "No unlabelled row is the standard ensemble. At fixed steps more rows are visited less often each; at fixed "
        "visits the unlabelled batch grows with their number."
    )
    return curves_section("Against the number of unlabelled rows", text, groups, "unlabelled rows")


CURVES: dict[str, Callable[[Results], Section | None]] = {
    "size_curves": size_curves,
    "severity_curves": severity_curves,
    "member_curves": member_curves,
    "plateaus": plateaus,
    "unlabeled_curves": unlabeled_curves,
}
