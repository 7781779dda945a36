"""Figures that several studies show: ours beside the published scores, reliability diagrams."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.report.figures import ACCENT, INK, SOFT
from nu_ensembles.report.page import Gallery, Paragraph, Picture, Section
from nu_ensembles.report.svg import new_axes
from nu_ensembles_studies.declare.study import Row
from nu_ensembles_studies.pages.names_and_cells import place_name, published_value, row_name
from nu_ensembles_studies.results.intervals import BY_KEY, Interval
from nu_ensembles_studies.results.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that are legible on white and on near-black; standard and nu take the page's own.
COLOURS = {"standard": INK, "nu": ACCENT}
OTHER_COLOURS = ("#c2571a", "#3d8b53", "#9a5fc2", "#b3803d", "#3b8ea5", "#c24d7c")


def against_published_section(results: Results) -> Section | None:
    """ECE and NLL of every row under the published protocol, with the paper's value as a hollow square."""
    rows = [row for row in results.rows if row.protocol == "published" and results.mean(row, "ece").mean >= 0]
    if not any(published_value(row, "ece") is not None for row in rows):
        return None
    pictures = []
    for key in ("ece", "nll"):
        metric = BY_KEY[key]
        ax = new_axes(5.2, 0.8 + 0.27 * len(rows))
        words = []
        for place, row in enumerate(reversed(rows)):
            value, stated = results.mean(row, key), published_value(row, key)
            _point(ax, value, place, colour_of(row.method))
            if stated is not None:
                ax.plot([stated], [place], marker="s", markersize=6, color=INK, markerfacecolor="none", linestyle="")
            beside = "" if stated is None else f" (published {stated})"
            words.append(f"{place_name(row.place)} {row.title} {metric.text(value)}{beside}")
        ax.set_yticks(range(len(rows)), [row_name(row) for row in reversed(rows)])
        ax.set_xlabel(metric.title)
        ax.tick_params(axis="y", length=0)
        without_spines(ax, "top", "right", "left")
        caption = f"{metric.title}: dots are ours with 95 % intervals over seeds, squares the published values."
        pictures.append(Picture(ax, caption, f"{metric.title}. {'; '.join(words)}."))
    return Section("Beside the published values", [Gallery(pictures, wide=True)])


def reliability_section(results: Results) -> Section | None:
    """Accuracy against confidence of standard and nu, averaged over seeds, at every place."""
    galleries = []
    for place in results.places():
        pictures = []
        for row in (results.find("standard", place), results.find("nu", place)):
            drawn = None if row is None else _reliability_of_bins(results, row)
            if row is not None and drawn is not None:
                ece = results.mean(row, "ece").text()
                alt = f"Reliability diagram of {row.title}, {place_name(place)}, ECE {ece}."
                pictures.append(Picture(drawn, f"ECE {ece}", alt))
        if pictures:
            protocol = f" ({place.protocol})" if place.protocol else ""
            galleries.append(Gallery(pictures, title=f"{place_name(place)}{protocol}", folded=len(galleries) > 0))
    if not galleries:
        return None
    text = (
        "Accuracy against confidence of the predicted class, 15 bins, all seeds together; points below the diagonal "
        "are overconfident. The bars show how often each confidence occurs."
    )
    return Section("Are the probabilities right?", [Paragraph(text), *galleries])


def _reliability_of_bins(results: Results, row: Row) -> Axes | None:
    """A reliability diagram from the bins that the records keep, all seeds together; None if there are none."""
    bins = [each for each in results.further(row, "reliability") if each]
    if not bins:
        return None
    share = np.array([each["share"] for each in bins], np.float64)
    weight = share.sum(axis=0)

    def pooled(name: str) -> np.ndarray:
        values = np.array([[0.0 if v is None else v for v in each[name]] for each in bins])
        return np.divide((share * values).sum(axis=0), weight, out=np.full(len(weight), np.nan), where=weight > 0)

    ax = new_axes(3.2, 3.2)
    n_bins = len(weight)
    ax.bar((np.arange(n_bins) + 0.5) / n_bins, weight / weight.sum(), width=0.92 / n_bins, color=SOFT)
    ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, linestyle=":")
    ax.plot(pooled("confidence"), pooled("accuracy"), color=ACCENT, marker="o", markersize=3.5)
    ax.set(xlim=(0, 1), ylim=(0, 1), xlabel="confidence", ylabel="accuracy")
    ax.set_title(row.title, fontsize=10)
    return ax


def colour_of(method: str) -> str:
    """The colour of a method: the same on every figure of a page."""
    return COLOURS.get(method) or OTHER_COLOURS[sum(map(ord, method)) % len(OTHER_COLOURS)]


def without_spines(ax: Axes, *sides: str) -> None:
    """Hides the frame on some sides."""
    for side in sides:
        ax.spines[side].set_visible(False)


def _point(ax: Axes, value: Interval, place: float, colour: str) -> None:
    if not math.isnan(value.half_width):
        ends = [value.mean - value.half_width, value.mean + value.half_width]
        ax.plot(ends, [place, place], color=colour, linewidth=1.6)
    ax.plot([value.mean], [place], marker="o", markersize=4.5, color=colour)
