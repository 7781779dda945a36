"""Deployment: labels from one place, unlabelled and test rows from another.

Measured on every seed of every shift (`nu_ensembles_studies.shifts`): scores on the deployment of the early-stopped
standard ensemble, with a temperature from the source and with PseudoCal's from the unlabelled rows, of label smoothing,
mixup, the confidence penalty on the unlabelled rows, Agree to Disagree, self-training, and of ν (auto) with unlabelled
rows from the source and from the deployment; and of ν with the β that is best there, which shows the room. All have the
same networks and seed. Shifts that a rule was developed on are left out.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from nu_ensembles.report.page import Cell, Column, Paragraph, Section, SortableTable
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import make_row, places
from nu_ensembles_studies.declare.published import Setting
from nu_ensembles_studies.declare.study import Place, Row, Study
from nu_ensembles_studies.results.claims import Claim
from nu_ensembles_studies.results.intervals import Interval, interval_of
from nu_ensembles_studies.results.results import Results

N_LABELS, PASSES, MEMBERS = 100, 300, 5
# Photographs take a convolutional network, of which two cores bear two members for fewer passes.
PHOTOGRAPHS, OF_PHOTOGRAPHS, PASSES_OF_THESE, MEMBERS_OF_THESE = "cifar10.", "lenet", 60, 2
HURTS = 0.05
# What comes with the package or stands in the folder of data: shifts that no rule was developed on.
SHIFTS = (
    "digits.contrast-3",
    "digits.elastic_transform-3",
    "digits.fog-3",
    "digits.to-mnist",
    "digits.from-mnist",
    "vehicle.cluster",
    "spam.cluster",
    "dna.column",
    "cellseg.column",
    "soybean.date",
    "penguins.island",
    "income.AREA",
    "breast_cancer.cluster",
    "wine.cluster",
    "german.column",
    "spam.same",
    "cifar10.contrast-4",
)
TITLES = {
    "temperature_scaled": "standard, temperature from the source",
    "pseudocal": "standard, PseudoCal's temperature",
    "label_smoothing": "label smoothing",
    "mixup": "mixup",
    "confidence_penalty": "confidence penalty on U",
    "self_training": "self-training on U",
    "agree_to_disagree": "Agree to Disagree on U",
    "nu_source": "ν, auto, U from the source",
    "nu_auto": "ν, auto, U from the deployment",
    "oracle": "ν with the β that is best there",
}


def rows(options: StudyOptions) -> list[Row]:
    found = []
    for place in places(options, usual_sizes=lambda _: (N_LABELS,)):
        fields: dict[str, Any] = {
            "kind": "deployment",
            "n_validation": 0,
            "n_unlabeled": 0,
            "augment": False,
            "split": "random",
        }
        setting = [Setting(1e-3, PASSES)]
        if place.dataset.startswith(PHOTOGRAPHS):
            place = place._replace(model=OF_PHOTOGRAPHS)
            fields["n_members"], setting = MEMBERS_OF_THESE, [Setting(1e-3, PASSES_OF_THESE)]
        found.append(make_row(options, place, "nu", setting, title="ν, auto", **fields))
    return found


def changes(results: Results, row: Row, part: str) -> np.ndarray:
    """A line for each seed: log ratio of the NLL to the standard ensemble's, change of the ECE, whether it hurts."""
    nll = results.values(row, "nll", part) / results.values(row, "nll", "standard")
    ece = [results.values(row, "ece", each) for each in (part, "standard")]
    found = np.stack([np.log(nll), ece[0] - ece[1], ece[1] > HURTS], axis=1)
    return found[~np.isnan(found[:, 0])]


def methods_section(results: Results) -> Section | None:
    """Every method over all shifts: where the standard ensemble is off, and where it is not."""
    columns = [
        Column("Trained how", text=True),
        Column("NLL where it hurts", f"Geometric mean, where the standard ensemble's ECE there exceeds {HURTS:g}."),
        Column("Worst"),
        Column("ECE lower", "Share of these runs."),
        Column("NLL where harmless"),
        Column("Worst", "Of the harmless runs."),
        Column("Source NLL", "Geometric mean over all runs."),
    ]
    lines = []
    for part, title in TITLES.items():
        found = np.concatenate([changes(results, row, part) for row in results.rows])
        if not len(found):
            return None
        hurts = found[:, 2] == 1
        source = np.concatenate(
            [
                np.log(results.values(row, "nll", f"source_{part}") / results.values(row, "nll", "source_standard"))
                for row in results.rows
            ]
        )
        cells = [_relative(found[hurts, 0], np.mean), _relative(found[hurts, 0], np.max)]
        lower = float((found[hurts, 1] < 0).mean()) if hurts.any() else math.nan
        cells.append(Cell("–", "–") if math.isnan(lower) else Cell(f"{100 * lower:.0f} %", lower))
        cells += [_relative(found[~hurts, 0], np.mean), _relative(found[~hurts, 0], np.max)]
        lines.append([Cell(title), *cells, _relative(source[~np.isnan(source)], np.mean)])
    n = sum(len(changes(results, row, "nu_auto")) for row in results.rows)
    text = f"Against the standard ensemble that was stopped early out of fold, {n} runs of {len(results.rows)} shifts."
    return Section("Every method on the deployment", [Paragraph(text), SortableTable("All shifts", columns, lines)])


def shifts_section(results: Results) -> Section | None:
    """Every shift: the standard ensemble there, ν (auto), the room, and what was expected."""
    columns = [
        Column("Shift", text=True),
        Column("Runs"),
        Column("Standard: accuracy %"),
        Column("ECE"),
        Column("NLL"),
        Column("ν, auto: NLL"),
        Column("ECE with ν"),
        Column("Best β there"),
        Column("β chosen"),
        Column("Expected accuracy %"),
        Column("True %"),
    ]
    lines = []
    for row in results.rows:
        found = changes(results, row, "nu_auto")
        if not len(found):
            continue
        accuracy = results.mean(row, "accuracy", "standard")
        ece, nll = (results.mean(row, name, "standard") for name in ("ece", "nll"))
        betas = sorted({f"{beta:g}" for beta in results.values(row, "beta", "choice") if not math.isnan(beta)})
        expected, true = (results.mean(row, name, "choice") for name in ("expected", "accuracy_there"))
        cells = [_mean(accuracy, 100, 1), _mean(ece, 1, 3), _mean(nll, 1, 3), _relative(found[:, 0], np.mean)]
        cells += [_mean(results.mean(row, "ece", "nu_auto"), 1, 3)]
        cells += [_relative(changes(results, row, "oracle")[:, 0], np.mean), Cell(", ".join(betas))]
        cells += [_mean(expected, 100, 0), _mean(true, 100, 0)]
        lines.append([Cell(row.dataset), Cell(str(len(found)), len(found)), *cells])
    if not lines:
        return None
    return Section("Shift by shift", [SortableTable("NLL: change against the standard ensemble", columns, lines)])


def _relative(logarithms: np.ndarray, of: object) -> Cell:
    if not len(logarithms):
        return Cell("–", "–")
    value = float(np.expm1(np.mean(logarithms) if of is np.mean else np.max(logarithms)))
    return Cell(f"{100 * value:+.1f} %".replace("-", "−"), value)


def _mean(value: Interval, scale: float, digits: int) -> Cell:
    return Cell("–", "–") if math.isnan(value.mean) else Cell(f"{scale * value.mean:.{digits}f}", value.mean)


def claims(results: Results) -> list[Claim]:
    """That ν (auto) lowers the NLL where the shift hurts; over all shifts together."""
    found = np.concatenate([changes(results, row, "nu_auto") for row in results.rows])
    hurting = found[found[:, 2] == 1, 0]
    if not len(hurting):
        return []
    place = Place("all shifts that hurt", N_LABELS, "mlp")
    return [Claim.about(place, "nll", interval_of(hurting), text="logarithm of the NLL {}")]


DEPLOYMENT = Study(
    name="deployment",
    title="Rows from where you deploy",
    question="Labels from one place, unlabelled and test rows from another: whose probabilities are right there?",
    rows=rows,
    defaults={"datasets": SHIFTS, "models": ("mlp",), "members": MEMBERS},
    sections=(methods_section, shifts_section),
    claims=claims,
    notes=(
        "The perceptrons are trained as the classifiers do it; photographs train two members of LeNet. The last row "
        "of the first table chooses by the test labels: it shows the room, and is no method.",
        "Shifts whose data are not at hand fail and are named; the folder is the one that NU_ENSEMBLES_DATA names.",
    ),
)
