"""Shifts that nobody made: another season, island, site or population of the mixed tables."""

from __future__ import annotations

import dataclasses

import numpy as np

from nu_ensembles_studies.shifts.drawing import Shifted, TwoPlaces
from nu_ensembles_studies.shifts.tables import WholeTable


@dataclasses.dataclass(frozen=True)
class NaturalShift:
    """Which rows of a table are the deployment.

    Attributes:
      table: its name.
      column: which says where or when a row is from; no network sees it.
      deployed: its values in the deployment; gaps are left out.
      title: for readers.
    """

    table: str
    column: str
    deployed: tuple[str, ...]
    title: str


NATURAL = {
    "income.AGE": NaturalShift("income", "AGE", ("14-17", "18-24"), "Income: people under 25"),
    "income.AREA": NaturalShift(
        "income",
        "AREA",
        ("-1 year", "1-3 years", "4-6 years", "7-10 years"),
        "Income: newcomers of less than ten years",
    ),
    "soybean.date": NaturalShift("soybean", "date", ("0", "1", "2", "3"), "Soybean: April to July"),
    "penguins.island": NaturalShift("penguins", "island", ("Torgersen",), "Penguins: Torgersen"),
    "penguins.year": NaturalShift("penguins", "year", ("2009",), "Penguins: 2009"),
    "scat.Site": NaturalShift("scat", "Site", ("YOLA",), "Scat: Yolo Bypass"),
}


def split_naturally(table: WholeTable, shift: NaturalShift, seed: int, n_labelled: int) -> Shifted:
    """The parts of a table: source rows from one place or time, deployment rows from another."""
    place = np.array([str(word) for word in table.raw.only([shift.column]).parts[0].words()])
    known = np.flatnonzero(place != "None")
    x = table.without(shift.column).x[known]
    rng = np.random.default_rng([seed, 32])
    return TwoPlaces(x, table.y[known], np.isin(place[known], shift.deployed)).draw(rng, n_labelled)
