"""Training size: accuracy and calibration of standard and nu-ensembles from 1,000 to 40,000 labels [Figure 1].

Measured at every size, on every seed: all metrics on the test rows, under the published and the matched protocol. The
paper says that accuracy stays the same, that the gain in ECE shrinks as labels come in, and that it lasts longer on
CIFAR-100.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.studies.claims import Claim, claims_against, lowering_verdict
from nu_ensembles.studies.comparison import Interval, student_interval
from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.protocols import protocol_rows
from nu_ensembles.studies.published import SIZES
from nu_ensembles.studies.study import Row, Study

if TYPE_CHECKING:
    from nu_ensembles.studies.results import Results

DIGITS_SIZES = (25, 50, 100, 200, 400)


def sizes_of(dataset: str, asked: tuple[int, ...]) -> tuple[int, ...]:
    """Numbers of labels: those that were asked for, or the paper's."""
    return asked or (DIGITS_SIZES if dataset == "digits" else SIZES)


def rows(options: StudyOptions) -> list[Row]:
    return protocol_rows(options, lambda dataset: sizes_of(dataset, options.n))


def claims(results: Results) -> list[Claim]:
    """Comparable accuracy and lower ECE at every size, and a gain that shrinks from the smallest to the largest."""
    return claims_against(results, "standard", "nu", ("accuracy", "ece")) + shrinking_gains(results)


def shrinking_gains(results: Results) -> list[Claim]:
    """The gain in ECE at the smallest size less that at the largest, for every data set, network and protocol.

    Largest: of those that were trained on a seed that the smallest was trained on, too.
    """
    found = []
    for dataset, model, protocol in dict.fromkeys((r.dataset, r.model, r.protocol) for r in results.rows):
        gains = {
            n: gain
            for d, n, m, p in results.places()
            if (d, m, p) == (dataset, model, protocol) and (gain := _gain(results, (d, n, m, p))) is not None
        }
        if not gains:
            continue
        smallest = min(gains)
        changes = {n: gain - gains[smallest] for n, gain in gains.items() if n > smallest}
        trained = {n: change[~np.isnan(change)] for n, change in changes.items() if not np.isnan(change).all()}
        if trained:
            largest = max(trained)
            measured: Interval = student_interval(trained[largest])
            text = f"gain shrinks from n = {smallest} to {largest}"
            place = dataset, largest, model, protocol
            found.append(Claim(place, text, "ece", None, measured, lowering_verdict(measured, None)))
    return found


def _gain(results: Results, place: tuple[str, int, str, str]) -> np.ndarray | None:
    """By how much nu's ECE is lower, seed by seed."""
    standard, nu = results.find("standard", place), results.find("nu", place)
    if standard is None or nu is None:
        return None
    return results.values(standard, "ece") - results.values(nu, "ece")


TRAINING_SIZE = Study(
    name="training-size",
    title="Training size: from 1,000 to 40,000 labels",
    question="How do accuracy and calibration of ν-ensembles compare with standard ensembles as labels come in?",
    rows=rows,
    defaults={
        "datasets": ("cifar10", "cifar100"),
        "models": ("lenet", "mlp", "wrn-22-4"),
        "methods": ("standard", "nu"),
        "protocols": ("published", "matched"),
    },
    claims=claims,
    sections=("size_curves", "claims", "scores", "temperature", "unlabeled"),
)
