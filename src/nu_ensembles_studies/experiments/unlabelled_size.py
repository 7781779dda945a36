"""Unlabelled size: calibration from no unlabelled row to 40,000, at fixed steps and at fixed visits per row.

At fixed steps every member takes as many unlabelled rows a step as ever, so more rows are visited less often each; at
fixed visits the unlabelled batch grows with their number. Measured on every seed: all metrics, at nu's published
learning rate, epochs and beta. No unlabelled row is the standard ensemble.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nu_ensembles.report.page import Section
from nu_ensembles_studies.declare.data_sets import data_set
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import make_row, nu_setting, places
from nu_ensembles_studies.declare.published import Setting
from nu_ensembles_studies.declare.study import Row, Study
from nu_ensembles_studies.pages.curves import Series, curves_section
from nu_ensembles_studies.pages.names_and_cells import place_name
from nu_ensembles_studies.pages.tables import scores_section, unlabeled_section
from nu_ensembles_studies.results.results import Results

SIZES = (625, 1250, 2500, 5000, 10_000, 20_000, 40_000)
DIGITS_SIZES = (100, 200, 400, 800)
FIXED_STEPS, FIXED_VISITS = "fixed steps", "fixed visits"


def rows(options: StudyOptions) -> list[Row]:
    found = []
    for anywhere in places(options):
        nu = nu_setting(anywhere)
        for way in (FIXED_STEPS, FIXED_VISITS):
            place = anywhere._replace(protocol=way)
            # The standard ensemble keeps the usual unlabelled rows for what is measured on them.
            standard = Setting(nu.learning_rate, nu.epochs)
            found.append(make_row(options, place, "standard", [standard], varied=[("m", 0)]))
            for m in DIGITS_SIZES if place.dataset == "digits" else SIZES:
                batch = None if way == FIXED_STEPS else max(1, 32 * m // data_set(place.dataset).n_unlabeled)
                fields = {"n_unlabeled": m, "unlabeled_batch_size": batch}
                found.append(make_row(options, place, "nu", [nu], title=f"ν, m = {m}", varied=[("m", m)], **fields))
    return found


def unlabeled_curves(results: Results) -> Section | None:
    """Accuracy, ECE and NLL against the number of unlabelled rows."""

    def series(rows: Sequence[Row], metric: str) -> list[Series]:
        by_m = {row.value_of("m"): results.values(row, metric) for row in rows}
        x = sorted(by_m)
        return [Series("ν (0: standard)", "nu", x, np.stack([by_m[m] for m in x]))]

    groups = {f"{place_name(place)}, {place.protocol}": results.at(place) for place in results.places()}
    text = (
        "No unlabelled row is the standard ensemble. At fixed steps more rows are visited less often each; at fixed "
        "visits the unlabelled batch grows with their number."
    )
    return curves_section("Against the number of unlabelled rows", text, groups, series, "unlabelled rows")


UNLABELLED_SIZE = Study(
    name="unlabelled-size",
    title="How many unlabelled rows?",
    question="How do ν-ensembles change with the number of unlabelled rows?",
    rows=rows,
    defaults={"datasets": ("cifar10", "cifar100"), "models": ("lenet", "mlp")},
    sections=(unlabeled_curves, scores_section, unlabeled_section),
)
