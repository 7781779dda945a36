"""Corruptions: accuracy and calibration under 15 corruptions at 5 severities, after training on clean images.

Measured on every seed: accuracy, NLL, ECE and TACE for each corruption and severity (Hendrycks and Dietterich, 2019;
our implementation). The paper averages ECE over corruptions [Figure 2] and says that nu-ensembles are better calibrated
at every severity, most of all the ResNet at high ones.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from nu_ensembles.report.page import Cell, Column, Section, SortableTable
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import WHOLE_TABLE, protocol_rows
from nu_ensembles_studies.declare.study import Row, Study
from nu_ensembles_studies.pages.claims import claims_section
from nu_ensembles_studies.pages.curves import Series, by_place, curves_section
from nu_ensembles_studies.pages.names_and_cells import difference_cell, mean_cell, place_name
from nu_ensembles_studies.pages.tables import scores_section
from nu_ensembles_studies.results.claims import Claim
from nu_ensembles_studies.results.intervals import BY_KEY, interval_of
from nu_ensembles_studies.results.json_numbers import stored_value
from nu_ensembles_studies.results.results import Results

SEVERITIES = (0, 1, 2, 3, 4, 5)


def rows(options: StudyOptions) -> list[Row]:
    return protocol_rows(options, also=("corruptions",))


def by_severity(results: Results, row: Row, metric: str) -> np.ndarray:
    """Mean of a metric over corruptions, `[6, S]`: clean rows first, then severities 1 to 5; nan where missing."""
    found = np.full((len(SEVERITIES), len(row.candidates)), np.nan)
    found[0] = results.values(row, metric)
    for seed, corrupted in enumerate(results.further(row, "corruptions")):
        for severity in SEVERITIES[1:]:
            values = [stored_value(each, metric) for each in corrupted or () if each["severity"] == severity]
            if values:
                found[severity, seed] = np.mean(values)
    return found


def claims(results: Results) -> list[Claim]:
    """At every severity: comparable accuracy, lower ECE."""
    found = []
    for place, standard, nu in results.pairs():
        for metric in ("accuracy", "ece"):
            change = by_severity(results, nu, metric) - by_severity(results, standard, metric)
            for severity in SEVERITIES[1:]:
                measured = interval_of(change[severity])
                if not np.isnan(measured.mean):
                    text = f"{{}} at severity {severity}"
                    found.append(Claim.about(place, metric, measured, text=text))
    return found


def severity_curves(results: Results) -> Section | None:
    """Accuracy, ECE and NLL against the severity of the corruption, averaged over corruptions."""

    def series(rows: Sequence[Row], metric: str) -> list[Series]:
        return [Series(row.title, row.method, SEVERITIES, by_severity(results, row, metric)) for row in rows]

    text = "Averages over 15 corruptions; severity 0 is the clean test set."
    return curves_section("Against severity", text, by_place(results), series, "severity")


def worst_corruptions(results: Results) -> Section | None:
    """ECE under each corruption at severity 5, nu minus standard."""
    columns = [Column("Corruption", text=True), Column("standard"), Column("ν"), Column("Difference")]
    ece, blocks = BY_KEY["ece"], []
    for place, *both in results.pairs():
        standard, nu = (_at_worst(results, row) for row in both)
        lines = []
        for name in sorted(set(standard) & set(nu)):
            cells = [mean_cell(ece, interval_of(values[name])) for values in (standard, nu)]
            difference = difference_cell(ece, interval_of(nu[name] - standard[name]))
            lines.append([Cell(name.replace("_", " ")), *cells, difference])
        if lines:
            caption = f"{place_name(place)} ({place.protocol}): ECE at severity 5"
            blocks.append(SortableTable(caption, columns, lines))
    return Section("Corruption by corruption", blocks) if blocks else None


def _at_worst(results: Results, row: Row) -> dict[str, np.ndarray]:
    """ECE at severity 5 of every seed, by corruption; nan where missing."""
    found: dict[str, np.ndarray] = {}
    for seed, corrupted in enumerate(results.further(row, "corruptions")):
        for each in corrupted or ():
            if each["severity"] == SEVERITIES[-1]:
                values = found.setdefault(each["corruption"], np.full(len(row.candidates), np.nan))
                values[seed] = each["ece"]
    return found


CORRUPTIONS = Study(
    name="corruptions",
    title="Common corruptions of the test images",
    question="Are ν-ensembles better calibrated than standard ensembles on corrupted images, too?",
    rows=rows,
    defaults=WHOLE_TABLE,
    claims=claims,
    sections=(severity_curves, claims_section, worst_corruptions, scores_section),
)
