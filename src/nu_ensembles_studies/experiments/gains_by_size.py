"""When: a map of what nu-ensembles gain over the number of labelled (n) and unlabelled (m) rows.

The paper leaves open which sizes profit. Measured on every seed: the difference of nu and standard in NLL and ECE at
every n and m, both at nu's published learning rate, epochs and beta.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nu_ensembles.report.page import Gallery, Paragraph, Picture, Section
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import make_row, nu_setting, places
from nu_ensembles_studies.declare.published import Setting
from nu_ensembles_studies.declare.study import Place, Row, Study
from nu_ensembles_studies.pages.maps import number_map
from nu_ensembles_studies.pages.names_and_cells import data_and_network
from nu_ensembles_studies.pages.tables import scores_section
from nu_ensembles_studies.results.intervals import BY_KEY
from nu_ensembles_studies.results.results import Results

LABELLED = (250, 500, 1000, 2000, 4000, 10_000)
UNLABELLED = (1250, 5000, 20_000)
DIGITS_LABELLED = (25, 50, 100, 200, 400)
DIGITS_UNLABELLED = (100, 400, 800)
UNCLEAR = "no colours, because no 95 % interval over seeds is clear of zero (one seed has none)"


def rows(options: StudyOptions) -> list[Row]:
    found = []
    for place in places(options, "matched", lambda data: DIGITS_LABELLED if data == "digits" else LABELLED):
        nu = nu_setting(place)
        found.append(make_row(options, place, "standard", [Setting(nu.learning_rate, nu.epochs)]))
        for m in DIGITS_UNLABELLED if place.dataset == "digits" else UNLABELLED:
            title, varied = f"ν, m = {m}", [("m", m)]
            found.append(make_row(options, place, "nu", [nu], title=title, varied=varied, n_unlabeled=m))
    return found


def gain_maps(results: Results) -> Section | None:
    """nu minus standard in NLL and ECE over the numbers of labelled and unlabelled rows."""
    galleries = []
    for place, of_group in results.across_sizes().items():
        labelled = sorted({row.n_train for row in of_group})
        unlabelled = sorted({row.value_of("m") for row in of_group if row.method == "nu"})
        drawn = (_gain_map(results, place, labelled, unlabelled, key) for key in ("nll", "ece"))
        pictures = [picture for picture in drawn if picture is not None]
        if pictures:
            galleries.append(Gallery(pictures, title=data_and_network(place)))
    whose = "our" if all(row.dataset == "digits" for row in results.rows) else "the published"
    text = f"Means over seeds of the difference on the same seed, at {whose} learning rate, epochs and β for ν."
    return Section("What ν gains, by size", [Paragraph(text), *galleries]) if galleries else None


def _gain_map(
    results: Results, place: Place, labelled: Sequence[int], unlabelled: Sequence[int], key: str
) -> Picture | None:
    """The map of one score; coloured where the seeds settle the difference. None where nothing was trained."""
    values = np.full((len(labelled), len(unlabelled)), np.nan)
    clear = np.zeros(values.shape, bool)
    for i, n in enumerate(labelled):
        here = place._replace(n_train=n)
        standard = results.find("standard", here)
        for j, m in enumerate(unlabelled):
            nu = results.find("nu", here, m=m)
            if standard is not None and nu is not None:
                change = results.difference(nu, standard, key)
                values[i, j], clear[i, j] = change.mean, change.excludes_zero
    if np.isnan(values).all():
        return None
    names = [f"{m:g}" for m in unlabelled], [f"{n:g}" for n in labelled]
    ax = number_map(values, *names, digits=3, diverging=True, coloured=clear)
    ax.set(xlabel="unlabelled rows m", ylabel="labelled rows n")
    colours = "blue is better, red is worse, white where the 95 % interval over seeds includes zero"
    caption = f"Difference in {BY_KEY[key].title}, ν minus standard: {colours if clear.any() else UNCLEAR}."
    return Picture(ax, caption, f"{caption} Between {np.nanmin(values):.3f} and {np.nanmax(values):.3f}.")


WHEN = Study(
    name="when",
    title="When do ν-ensembles help?",
    question="For which numbers of labelled and unlabelled rows do ν-ensembles gain?",
    rows=rows,
    defaults={"datasets": ("cifar10", "cifar100"), "models": ("lenet", "mlp")},
    sections=(gain_maps, scores_section),
)
