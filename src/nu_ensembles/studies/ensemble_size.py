"""Ensemble size: every metric of the first 1, 2, … 20 members, and where more of them stop helping [Figure 3, left].

Twenty members are trained once on each seed; member k does not depend on their number, so the first k of them are the
ensemble of k. The paper says that ECE stops falling at about 8 members for standard ensembles and goes on for nu's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.studies.numbers import stored_value
from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.protocols import protocol_rows
from nu_ensembles.studies.study import Row, Study

if TYPE_CHECKING:
    from nu_ensembles.studies.results import Results

MOST_MEMBERS = 20
# Mean ECE (or NLL, relatively) this close to that of all members is called the plateau.
TOLERANCE = {"ece": 0.002, "nll": 0.005, "accuracy": 0.002}


def rows(options: StudyOptions) -> list[Row]:
    return protocol_rows(options, also=("prefixes",))


def by_size(results: Results, row: Row, metric: str) -> np.ndarray:
    """A metric of the first 1 … K members, `[K, S]`; nan where missing."""
    of_seeds = results.extras(row, "prefixes")
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


ENSEMBLE_SIZE = Study(
    name="ensemble-size",
    title="Ensemble size: from 1 to 20 members",
    question="Where do more members stop helping, for standard and for ν-ensembles?",
    rows=rows,
    defaults={
        "datasets": ("cifar10", "cifar100"),
        "models": ("lenet", "mlp"),
        "methods": ("standard", "nu"),
        "protocols": ("published", "matched"),
        "members": MOST_MEMBERS,
    },
    sections=("member_curves", "plateaus", "scores"),
)
