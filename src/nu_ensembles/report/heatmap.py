"""The search as a picture: out-of-fold NLL over beta and steps, with what was chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np

from nu_ensembles.report.svg import new_axes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Colours that do not turn with a page's colour scheme, because they stand on coloured cells.
ON_LIGHT, ON_DARK, CHOSEN = "#111111", "#fdfdfd", "#d9480f"


class Searched(Protocol):
    """What a search over beta and steps found: `tuning.SearchResult`, or anything with these.

    betas `[P]`, steps `[S]`, nll `[P, S]` with nan where nothing was measured, chosen: a position in nll.
    """

    @property
    def betas(self) -> np.ndarray: ...
    @property
    def steps(self) -> np.ndarray: ...
    @property
    def nll(self) -> np.ndarray: ...
    @property
    def chosen(self) -> tuple[int, int]: ...


def nll_heat_map(search_result: Searched, ax: Axes | None = None) -> Axes:
    """Out-of-fold NLL of every beta at every stop, dark where it is low, empty where it was not measured.

    Frames mark the choice and, at beta = 0, where an early-stopped standard ensemble stops.

    Args:
      search_result: a `tuning.SearchResult`, or anything with its betas, steps, nll and chosen.
      ax: where to draw; None makes a new figure.
    """
    nll = np.asarray(search_result.nll, np.float64)
    n_betas, n_stops = nll.shape
    ax = new_axes(max(3.6, 1.6 + 0.46 * n_stops), max(2.6, 1.5 + 0.34 * n_betas)) if ax is None else ax
    best = float(np.nanmin(nll))
    # Everything above twice the best loss looks alike: its fall from log C in the first steps would use up the scale.
    shades = np.log(np.minimum(nll, 2 * best) / best) / np.log(2)
    ax.pcolormesh(np.arange(n_stops + 1) - 0.5, np.arange(n_betas + 1) - 0.5, shades, cmap="viridis", vmin=0, vmax=1)
    for row, column in np.argwhere(~np.isnan(nll)):
        colour = ON_DARK if shades[row, column] < 0.55 else ON_LIGHT
        text = f"{nll[row, column]:.2f}"
        ax.text(column, row, text, ha="center", va="center", fontsize=7, color=colour)
    _frame(ax, search_result.chosen, "chosen (ν auto)", linestyle="-", inset=0.0)
    if search_result.betas[0] == 0:
        _frame(ax, (0, int(np.nanargmin(nll[0]))), "standard, early-stopped", linestyle=":", inset=0.1)
    ax.set_xticks(np.arange(n_stops), [str(int(step)) for step in search_result.steps])
    ax.set_yticks(np.arange(n_betas), [f"{beta:g}" for beta in search_result.betas])
    ax.tick_params(labelsize=8, length=0)
    ax.set(xlabel="steps", ylabel="β")
    for side in ax.spines.values():
        side.set_visible(False)
    ax.legend(loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, frameon=False, fontsize=8, borderaxespad=0.2)
    return ax


def _frame(ax: Axes, cell: tuple[int, int], label: str, linestyle: str, inset: float) -> None:
    from matplotlib.patches import Rectangle

    (row, column), side = cell, 1 - 2 * inset
    frame = Rectangle((column - 0.5 + inset, row - 0.5 + inset), side, side, fill=False, clip_on=False, zorder=3)
    frame.set(edgecolor=CHOSEN, linewidth=2.0, linestyle=linestyle, label=label)
    ax.add_patch(frame)
