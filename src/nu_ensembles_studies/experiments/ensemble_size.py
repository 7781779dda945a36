"""Ensemble size: every metric of the first 1, 2, … 20 members, and where more of them stop helping [Figure 3, left].

Twenty members are trained once on each seed; member k does not depend on their number, so the first k of them are the
ensemble of k. The paper says that ECE stops falling at about 8 members for standard ensembles and goes on for nu's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nu_ensembles.report.page import Cell, Column, Section, SortableTable
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import WHOLE_TABLE, protocol_rows
from nu_ensembles_studies.declare.study import Row, Study
from nu_ensembles_studies.pages.curves import Series, by_place, curves_section
from nu_ensembles_studies.pages.names_and_cells import row_cells
from nu_ensembles_studies.pages.tables import TRAINED_HOW, scores_section
from nu_ensembles_studies.results.intervals import BY_KEY
from nu_ensembles_studies.results.json_numbers import stored_value
from nu_ensembles_studies.results.results import Results

MOST_MEMBERS = 20
# Mean ECE (or NLL, relatively) this close to that of all members is called the plateau.
TOLERANCE = {"ece": 0.002, "nll": 0.005, "accuracy": 0.002}


def rows(options: StudyOptions) -> list[Row]:
    return protocol_rows(options, also=("prefixes",))


def by_size(results: Results, row: Row, metric: str) -> np.ndarray:
    """A metric of the first 1 … K members, `[K, S]`; nan where missing."""
    of_seeds = results.further(row, "prefixes")
    most = max((len(each) for each in of_seeds if each), default=0)
    found = np.full((most, len(of_seeds)), np.nan)
    for seed, prefixes in enumerate(of_seeds):
        for size, scores in (prefixes or {}).items():
            found[int(size) - 1, seed] = stored_value(scores, metric)
    return found


def plateau(values: np.ndarray, tolerance: float) -> int | None:
    """The least size from which on the mean over seeds `[K, S]` stays within a tolerance of its last value."""
    if not values.size or np.isnan(values).all():
        return None
    means = np.nanmean(values, axis=1)
    if not np.isfinite(means[-1]):
        return None
    apart = np.flatnonzero(np.abs(means - means[-1]) > tolerance)
    return int(apart[-1]) + 2 if len(apart) else 1


def member_curves(results: Results) -> Section | None:
    """Accuracy, ECE and NLL of the first 1, 2, … members."""

    def series(rows: Sequence[Row], metric: str) -> Iterator[Series]:
        for row in rows:
            values = by_size(results, row, metric)
            yield Series(row.title, row.method, range(1, len(values) + 1), values)

    text = "The first 1, 2, … of an ensemble's members; averaging needs several before probabilities are soft enough."
    return curves_section("Against the number of members", text, by_place(results), series, "members")


def plateaus(results: Results) -> Section | None:
    """From how many members on nothing changes any more."""
    shown = [BY_KEY[key] for key in TOLERANCE]
    lines = []
    for row in results.rows:
        found = [plateau(by_size(results, row, metric.key), TOLERANCE[metric.key]) for metric in shown]
        if any(value is not None for value in found):
            lines.append(
                [*row_cells(row), *(Cell("–" if value is None else str(value), value or 0) for value in found)]
            )
    if not lines:
        return None
    columns = [*TRAINED_HOW, *(Column(metric.title) for metric in shown)]
    limits = ", ".join(f"{metric.title} {TOLERANCE[metric.key] * metric.scale:g}" for metric in shown)
    note = f"The least number of members from which on the mean over seeds stays this close to that of all: {limits}."
    return Section("Where more members stop helping", [SortableTable("Plateaus", columns, lines, note=note)])


ENSEMBLE_SIZE = Study(
    name="ensemble-size",
    title="Ensemble size: from 1 to 20 members",
    question="Where do more members stop helping, for standard and for ν-ensembles?",
    rows=rows,
    defaults={**WHOLE_TABLE, "models": ("lenet", "mlp"), "members": MOST_MEMBERS},
    sections=(member_curves, plateaus, scores_section),
)
