"""Maps of a study's page: a score over two things that were varied, as coloured cells with their numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.report.heatmap import ON_DARK, ON_LIGHT
from nu_ensembles.report.page import Cell, Column, Gallery, Paragraph, Picture, Section, Table
from nu_ensembles.report.study_tables import BY_KEY, place_name
from nu_ensembles.report.svg import new_axes
from nu_ensembles.studies.beta_sensitivity import landscape
from nu_ensembles.studies.results import Results

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MAPPED = ("nll", "ece", "accuracy")
# NLL this much above the best one is called as good.
WITHIN = 0.01
UNCLEAR = "no colours, because no 95 % interval over seeds is clear of zero (one seed has none)"


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
    for side in ax.spines.values():
        side.set_visible(False)
    return ax


def beta_maps(results: Results) -> Section | None:
    """NLL, ECE and accuracy over beta and epochs, means over seeds."""
    galleries = []
    for place in results.places():
        pictures = []
        for key in MAPPED:
            metric, found = BY_KEY[key], landscape(results, place, key)
            betas, lengths, values = found.betas, found.lengths, found.means * metric.scale
            if np.isnan(values).all():
                continue
            names = ["0" if beta == 0 else f"{beta:g}" for beta in betas]
            ax = number_map(values, [str(e) for e in lengths], names, digits=1 if key == "accuracy" else 2)
            ax.set(xlabel="epochs", ylabel="β")
            best = np.unravel_index(np.nanargmin(-values if key == "accuracy" else values), values.shape)
            alt = f"{metric.title} over β and epochs; best at β = {betas[best[0]]:g} after {lengths[best[1]]} epochs."
            pictures.append(Picture(ax, f"{metric.title}, {found.seeds}", alt))
        if pictures:
            galleries.append(Gallery(pictures, title=place_name(place), wide=True))
    text = (
        "β = 0 is the standard ensemble. Every row of a map is one training, measured on its way; seeds on which some "
        "β of the map is missing are left out."
    )
    return Section("Every score over β and epochs", [Paragraph(text), *galleries]) if galleries else None


def beta_ranges(results: Results) -> Section | None:
    """For each length: the best beta, the range that is as good, and what it gains over beta = 0."""
    columns = [
        Column("Where", text=True),
        Column("Epochs"),
        Column("Best β", "The β with the lowest test NLL, mean over seeds."),
        Column("As good from"),
        Column("to", f"Smallest and largest β whose NLL is within {100 * WITHIN:.0f} % of the best."),
        Column("NLL", "Of the best β."),
        Column("NLL at β = 0", "Of the standard ensemble of the same length."),
    ]
    lines = []
    for place in results.places():
        found = landscape(results, place, "nll")
        betas = found.betas
        for epochs, nll in zip(found.lengths, found.means.T, strict=True):
            if np.isnan(nll).all():
                continue
            best = int(np.nanargmin(nll))
            good = [beta for beta, value in zip(betas, nll, strict=True) if value <= (1 + WITHIN) * nll[best]]
            values = [epochs, betas[best], min(good), max(good)]
            cells = [Cell(f"{value:g}", value) for value in values]
            cells += [Cell("–" if math.isnan(v) else f"{v:.3f}", v) for v in (nll[best], nll[0])]
            lines.append([Cell(place_name(place)), *cells])
    if not lines:
        return None
    text = "Read off the test rows, so this describes the landscape; it is not a way to choose β."
    return Section("How wide is the range of good β?", [Paragraph(text), Table("Ranges of β", columns, lines)])


def gain_maps(results: Results) -> Section | None:
    """nu minus standard in NLL and ECE over the numbers of labelled and unlabelled rows."""
    galleries = []
    for dataset, model, protocol in dict.fromkeys((r.dataset, r.model, r.protocol) for r in results.rows):
        of_group = [r for r in results.rows if (r.dataset, r.model, r.protocol) == (dataset, model, protocol)]
        labelled = sorted({row.n_train for row in of_group})
        unlabelled = sorted({row.setting("m") for row in of_group if row.method == "nu"})
        pictures = []
        for key in ("nll", "ece"):
            values = np.full((len(labelled), len(unlabelled)), np.nan)
            clear = np.zeros(values.shape, bool)
            for i, n in enumerate(labelled):
                standard = results.find("standard", (dataset, n, model, protocol))
                for j, m in enumerate(unlabelled):
                    nu = results.find("nu", (dataset, n, model, protocol), m=m)
                    if standard is not None and nu is not None:
                        change = results.difference(nu, standard, key)
                        values[i, j], clear[i, j] = change.mean, change.excludes_zero
            if np.isnan(values).all():
                continue
            metric = BY_KEY[key]
            names = [f"{m:g}" for m in unlabelled], [f"{n:g}" for n in labelled]
            ax = number_map(values, *names, digits=3, diverging=True, coloured=clear)
            ax.set(xlabel="unlabelled rows m", ylabel="labelled rows n")
            colours = "blue is better, red is worse, white where the 95 % interval over seeds includes zero"
            caption = f"Difference in {metric.title}, ν minus standard: {colours if clear.any() else UNCLEAR}."
            pictures.append(
                Picture(ax, caption, f"{caption} Between {np.nanmin(values):.3f} and {np.nanmax(values):.3f}.")
            )
        if pictures:
            name = place_name((dataset, labelled[0], model, protocol)).split(", n =")[0]
            galleries.append(Gallery(pictures, title=name))
    whose = "our" if all(row.dataset == "digits" for row in results.rows) else "the published"
    text = f"Means over seeds of the difference on the same seed, at {whose} learning rate, epochs and β for ν."
    return Section("What ν gains, by size", [Paragraph(text), *galleries]) if galleries else None


MAPS: dict[str, Callable[[Results], Section | None]] = {
    "beta_maps": beta_maps,
    "beta_ranges": beta_ranges,
    "gain_maps": gain_maps,
}
