"""How places, rows and scores are written on a page."""

from __future__ import annotations

import math

from nu_ensembles.report.page import Cell
from nu_ensembles_studies.declare.data_sets import DATASETS
from nu_ensembles_studies.declare.networks import MODELS
from nu_ensembles_studies.declare.published import table_value
from nu_ensembles_studies.declare.study import Place, Row
from nu_ensembles_studies.results.intervals import HIGHER_IS_BETTER, Interval, Metric


def place_name(place: Place) -> str:
    """ "CIFAR-10, LeNet", with the number of labels where it is not the usual one."""
    about = DATASETS.get(place.dataset)
    size = "" if about and place.n_train == about.n_train else f", n = {place.n_train}"
    return data_and_network(place) + size


def data_and_network(place: Place) -> str:
    """ "CIFAR-10, LeNet", whatever the number of labels."""
    about = DATASETS.get(place.dataset)
    return f"{about.title if about else place.dataset}, {MODELS.get(place.model, place.model)}"


def row_name(row: Row) -> str:
    """The place and the method of a row."""
    return f"{place_name(row.place)}: {row.title}"


def row_cells(row: Row) -> list[Cell]:
    """Its name and its protocol."""
    return [Cell(row_name(row)), Cell(row.protocol)]


def published_value(row: Row, metric: str) -> float | None:
    """What Table 1 says about a row, if it was trained as the paper's was: one n, one m, one way to draw labels."""
    as_in_the_paper = (
        row.n_train == 1000
        and row.value_of("labels") in (None, "without_replacement")
        and row.value_of("m") in (None, 0, 5000)
        and (row.method in ("standard", "nu") or row.protocol == "published")
    )
    return table_value(row.dataset, row.model, row.method, metric) if as_in_the_paper else None


def score_cell(value: Interval, text: str, mark: str = "") -> Cell:
    """A mean and its interval, sorted by the mean; a dash sorts as one."""
    return Cell(text, "–" if math.isnan(value.mean) else value.mean, mark)


def mean_cell(metric: Metric, value: Interval) -> Cell:
    """A mean and its interval."""
    return score_cell(value, metric.text(value))


def difference_cell(metric: Metric, difference: Interval) -> Cell:
    """A signed difference, marked if its interval excludes zero."""
    mark = ""
    # Less mutual information is more diversity, which is neither better nor worse by itself.
    if difference.excludes_zero and metric.key != "mutual_information":
        mark = "better" if (difference.mean > 0) == (metric.key in HIGHER_IS_BETTER) else "worse"
    return score_cell(difference, metric.text(difference, signed=True), mark)
