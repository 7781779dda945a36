"""Corruptions: accuracy and calibration under 15 corruptions at 5 severities, after training on clean images.

Measured on every seed: accuracy, NLL, ECE and TACE for each corruption and severity (Hendrycks and Dietterich, 2019;
our implementation). The paper averages ECE over corruptions [Figure 2] and says that nu-ensembles are better calibrated
at every severity, most of all the ResNet at high ones.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.studies.claims import Claim, comparable_verdict, lowering_verdict
from nu_ensembles.studies.comparison import student_interval
from nu_ensembles.studies.numbers import stored_value
from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.protocols import protocol_rows
from nu_ensembles.studies.study import Row, Study

if TYPE_CHECKING:
    from nu_ensembles.studies.results import Results

SEVERITIES = (0, 1, 2, 3, 4, 5)


def rows(options: StudyOptions) -> list[Row]:
    return protocol_rows(options, also=("corruptions",))


def by_severity(results: Results, row: Row, metric: str) -> np.ndarray:
    """Mean of a metric over corruptions, `[6, S]`: clean rows first, then severities 1 to 5; nan where missing."""
    found = np.full((len(SEVERITIES), len(row.candidates)), np.nan)
    found[0] = results.values(row, metric)
    for seed, corrupted in enumerate(results.extras(row, "corruptions")):
        for severity in SEVERITIES[1:]:
            values = [stored_value(each, metric) for each in corrupted or () if each["severity"] == severity]
            if values:
                found[severity, seed] = np.mean(values)
    return found


def claims(results: Results) -> list[Claim]:
    """At every severity: comparable accuracy, lower ECE."""
    found = []
    for place in results.places():
        standard, nu = results.find("standard", place), results.find("nu", place)
        if standard is None or nu is None:
            continue
        for metric, text in (("accuracy", "comparable accuracy"), ("ece", "lower than standard")):
            change = by_severity(results, nu, metric) - by_severity(results, standard, metric)
            for severity in SEVERITIES[1:]:
                present = change[severity][~np.isnan(change[severity])]
                if len(present):
                    measured = student_interval(present)
                    judge = comparable_verdict if metric == "accuracy" else lambda m: lowering_verdict(m, None)
                    words = f"{text} at severity {severity}"
                    found.append(Claim(place, words, metric, None, measured, judge(measured)))
    return found


CORRUPTIONS = Study(
    name="corruptions",
    title="Common corruptions of the test images",
    question="Are ν-ensembles better calibrated than standard ensembles on corrupted images, too?",
    rows=rows,
    defaults={
        "datasets": ("cifar10", "cifar100"),
        "models": ("lenet", "mlp", "wrn-22-4"),
        "methods": ("standard", "nu"),
        "protocols": ("published", "matched"),
    },
    claims=claims,
    sections=("severity_curves", "claims", "worst_corruptions", "scores"),
)
