"""Beta: every metric over beta and the length of training, at the published learning rate.

The paper says that beta is easy to tune. Measured on every seed: all metrics of beta from 0 (the standard ensemble) to
1 at every length of the published grids, which are points on one trajectory for each beta.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from nu_ensembles.report.page import Cell, Column, Gallery, Paragraph, Picture, Section, SortableTable
from nu_ensembles_studies.declare import published
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import FINE_BETAS, epochs_grid, make_row, nu_setting, places
from nu_ensembles_studies.declare.published import Setting
from nu_ensembles_studies.declare.study import Place, Row, Study
from nu_ensembles_studies.pages.maps import number_map
from nu_ensembles_studies.pages.names_and_cells import place_name
from nu_ensembles_studies.results.intervals import BY_KEY
from nu_ensembles_studies.results.results import Results

BETAS = tuple(sorted({0.0, *FINE_BETAS, *published.BETAS, 0.3}))
MAPPED = ("nll", "ece", "accuracy")
# NLL this much above the best one is called as good.
WITHIN = 0.01


def rows(options: StudyOptions) -> list[Row]:
    return [
        _row(options, place, beta, epochs)
        for place in places(options)
        for beta in BETAS
        for epochs in epochs_grid(place.dataset, place.model)
    ]


def _row(options: StudyOptions, place: Place, beta: float, epochs: int) -> Row:
    setting = Setting(nu_setting(place).learning_rate, epochs, (("beta", beta),) if beta else ())
    title = f"β = {beta:g}, {epochs} epochs" if beta else f"standard, {epochs} epochs"
    varied = (("beta", beta), ("epochs", epochs))
    return make_row(options, place, "nu" if beta else "standard", [setting], title=title, varied=varied)


@dataclasses.dataclass(frozen=True, eq=False)
class Landscape:
    """A score over beta and epochs: means `[beta, epochs]` over the seeds on which all betas that are there trained.

    A beta with more seeds than another is not compared by them: seeds differ by more than neighbouring betas do.
    """

    betas: list[float]
    lengths: list[int]
    means: np.ndarray
    n_seeds: int

    @property
    def seeds(self) -> str:
        """Over how many seeds, in words."""
        return "one seed" if self.n_seeds == 1 else f"mean over {self.n_seeds} seeds"


def landscape(results: Results, place: Place, metric: str) -> Landscape:
    """The landscape of a place; all nan where nothing was trained."""
    at = {(row.value_of("beta"), row.value_of("epochs")): row for row in results.at(place)}
    betas, lengths = (sorted({key[i] for key in at}) for i in range(2))
    values = np.array([[results.values(at[beta, epochs], metric) for epochs in lengths] for beta in betas])
    trained = np.all(~np.isnan(values), axis=1)  # [beta, seed]
    shared = np.all(trained[np.any(trained, axis=1)], axis=0)
    means = np.full(values.shape[:2], np.nan)
    if np.any(shared):
        means = values[:, :, shared].mean(axis=2)
    return Landscape(betas, lengths, means, int(np.sum(shared)))


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
    blocks = [Paragraph(text), SortableTable("Ranges of β", columns, lines)]
    return Section("How wide is the range of good β?", blocks)


BETA_SENSITIVITY = Study(
    name="beta-sensitivity",
    title="How much depends on β?",
    question="How do accuracy and calibration change with β and the length of training?",
    rows=rows,
    defaults={"datasets": ("cifar10", "cifar100"), "models": ("lenet", "mlp")},
    sections=(beta_maps, beta_ranges),
    slim=True,
)
