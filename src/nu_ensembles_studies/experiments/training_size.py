"""Training size: accuracy and calibration of standard and nu-ensembles from 1,000 to 40,000 labels [Figure 1].

Measured at every size, on every seed: all metrics on the test rows, under the published and the matched protocol. The
paper says that accuracy stays the same, that the gain in ECE shrinks as labels come in, and that it lasts longer on
CIFAR-100.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from nu_ensembles.report.page import Section
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import WHOLE_TABLE, protocol_rows
from nu_ensembles_studies.declare.published import SIZES
from nu_ensembles_studies.declare.study import Place, Row, Study
from nu_ensembles_studies.pages.claims import claims_section
from nu_ensembles_studies.pages.curves import Series, curves_section
from nu_ensembles_studies.pages.names_and_cells import data_and_network
from nu_ensembles_studies.pages.tables import scores_section, temperature_section, unlabeled_section
from nu_ensembles_studies.results.claims import Claim, claims_of_nu
from nu_ensembles_studies.results.intervals import interval_of
from nu_ensembles_studies.results.results import Results

DIGITS_SIZES = (25, 50, 100, 200, 400)


def rows(options: StudyOptions) -> list[Row]:
    return protocol_rows(options, lambda dataset: DIGITS_SIZES if dataset == "digits" else SIZES)


def claims(results: Results) -> list[Claim]:
    """Comparable accuracy and lower ECE at every size, and a gain that shrinks from the smallest to the largest.

    Largest: of those that were trained on a seed that the smallest was trained on, too.
    """
    gains: dict[tuple[str, str, str], dict[int, np.ndarray]] = {}
    for place, standard, nu in results.pairs():
        of_place = results.values(standard, "ece") - results.values(nu, "ece")
        gains.setdefault((place.dataset, place.model, place.protocol), {})[place.n_train] = of_place
    found = claims_of_nu(results, ("accuracy", "ece"))
    for (dataset, model, protocol), by_size in gains.items():
        smallest = min(by_size)
        changes = {n: gain - by_size[smallest] for n, gain in by_size.items() if n > smallest}
        trained = [n for n, change in changes.items() if not np.isnan(change).all()]
        if trained:
            largest = max(trained)
            text = f"gain shrinks from n = {smallest} to {largest}"
            place = Place(dataset, largest, model, protocol)
            found.append(Claim.about(place, "ece", interval_of(changes[largest]), text=text))
    return found


def size_curves(results: Results) -> Section | None:
    """Accuracy, ECE and NLL against the number of labels."""

    def series(rows: Sequence[Row], metric: str) -> Iterator[Series]:
        for title, method in dict.fromkeys((row.title, row.method) for row in rows):
            by_n = {row.n_train: results.values(row, metric) for row in rows if row.title == title}
            x = sorted(by_n)
            yield Series(title, method, x, np.stack([by_n[n] for n in x]))

    groups = {f"{data_and_network(place)} ({place.protocol})": rows for place, rows in results.across_sizes().items()}
    text = "Only what was trained is drawn."
    return curves_section("Against the number of labels", text, groups, series, "labelled rows", log=True)


TRAINING_SIZE = Study(
    name="training-size",
    title="Training size: from 1,000 to 40,000 labels",
    question="How do accuracy and calibration of ν-ensembles compare with standard ensembles as labels come in?",
    rows=rows,
    defaults=WHOLE_TABLE,
    claims=claims,
    sections=(size_curves, claims_section, scores_section, temperature_section, unlabeled_section),
)
