"""Deployment: labels from one place, unlabelled and test rows from another.

Measured on every seed of every shift (`nu_ensembles_studies.shifts`): scores on the deployment of the early-stopped
standard ensemble, with a temperature from the source and with PseudoCal's from the unlabelled rows, of label smoothing,
mixup, the confidence penalty on the unlabelled rows, Agree to Disagree, self-training, and of ν (auto) with unlabelled
rows from the source and from the deployment; and of ν with the β that is best there, which shows the room. All have the
same networks and seed. Shifts that a rule was developed on are left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable
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
PERCEPTRON, CONVOLUTIONAL = "mlp", "lenet"
IMAGES = ("digits.", "cifar10.")
# Photographs take a convolutional network alone, of which two cores bear two members for fewer passes.
PHOTOGRAPHS, PASSES_OF_THESE, MEMBERS_OF_THESE = "cifar10.", 60, 2
HURTS = 0.05
# Scores are kept to six digits.
LEAST_NLL = 1e-6
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
    """A row for every shift and network that goes with it: convolutional ones are for images."""
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
        if place.model != PERCEPTRON and not place.dataset.startswith(IMAGES):
            continue
        if place.dataset.startswith(PHOTOGRAPHS):
            if place.model == PERCEPTRON and len(options.models) > 1:
                continue
            place = place._replace(model=CONVOLUTIONAL)
            fields["n_members"], setting = MEMBERS_OF_THESE, [Setting(1e-3, PASSES_OF_THESE)]
        title = "ν, auto" if place.model == PERCEPTRON else f"ν, auto, {place.model}"
        found.append(make_row(options, place, "nu", setting, title=title, **fields))
    return found


def changes(results: Results, row: Row, part: str) -> np.ndarray:
    """A line for each seed: log ratio of the NLL to the standard ensemble's, change of the ECE, whether it hurts,
    and by how many nats the NLL differs: where both are next to nothing their ratio says nothing.
    """
    nll, ece = ([results.values(row, score, each) for each in (part, "standard")] for score in ("nll", "ece"))
    log = [np.log(np.maximum(each, LEAST_NLL)) for each in nll]
    found = np.stack([log[0] - log[1], ece[0] - ece[1], ece[1] > HURTS, nll[0] - nll[1]], axis=1)
    return found[~np.isnan(found[:, 0])]


def methods_section(results: Results) -> Section | None:
    """Every method over all shifts: where the standard ensemble is off, and where it is not."""
    tables = [_methods_table(results, network, rows) for network, rows in by_network(results).items()]
    n = sum(len(changes(results, row, "nu_auto")) for row in results.rows)
    text = f"Against the standard ensemble that was stopped early out of fold, {n} runs of {len(results.rows)} shifts."
    return Section("Every method on the deployment", [Paragraph(text), *tables]) if tables else None


def by_network(results: Results) -> dict[str, list[Row]]:
    """The rows that have results, by the network that was trained."""
    found: dict[str, list[Row]] = {}
    for row in results.rows:
        if len(changes(results, row, "nu_auto")):
            found.setdefault(row.model, []).append(row)
    return found


def _methods_table(results: Results, network: str, rows: list[Row]) -> SortableTable:
    columns = [
        Column("Trained how", text=True),
        Column("NLL where it hurts", f"Geometric mean, where the standard ensemble's ECE there exceeds {HURTS:g}."),
        Column("Worst"),
        Column("ECE lower", "Share of these runs."),
        Column("NLL where harmless", "Mean difference, in nats."),
        Column("Worst", "Of the harmless runs, in nats."),
        Column("Source NLL", "Geometric mean over all runs."),
    ]
    lines = []
    for part, title in TITLES.items():
        found = np.concatenate([changes(results, row, part) for row in rows])
        hurts = found[:, 2] == 1
        source = np.concatenate(
            [
                np.log(results.values(row, "nll", f"source_{part}") / results.values(row, "nll", "source_standard"))
                for row in rows
            ]
        )
        cells = [_relative(found[hurts, 0], np.mean), _relative(found[hurts, 0], np.max)]
        lower = float((found[hurts, 1] < 0).mean()) if hurts.any() else math.nan
        cells.append(Cell("–", "–") if math.isnan(lower) else Cell(f"{100 * lower:.0f} %", lower))
        cells += [_nats(found[~hurts, 3], np.mean), _nats(found[~hurts, 3], np.max)]
        lines.append([Cell(title), *cells, _relative(source[~np.isnan(source)], np.mean)])
    n_runs = sum(len(changes(results, row, "nu_auto")) for row in rows)
    n_hurting = sum(int(changes(results, row, "nu_auto")[:, 2].sum()) for row in rows)
    return SortableTable(f"{network}: {len(rows)} shifts, {n_runs} runs, of which {n_hurting} hurt", columns, lines)


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
        name = row.dataset if row.model == PERCEPTRON else f"{row.dataset}, {row.model}"
        lines.append([Cell(name), Cell(str(len(found)), len(found)), *cells])
    if not lines:
        return None
    return Section("Shift by shift", [SortableTable("NLL: change against the standard ensemble", columns, lines)])


def _relative(logarithms: np.ndarray, of: object) -> Cell:
    if not len(logarithms):
        return Cell("–", "–")
    value = float(np.expm1(np.mean(logarithms) if of is np.mean else np.max(logarithms)))
    return Cell(f"{100 * value:+.1f} %".replace("-", "−"), value)


def _nats(differences: np.ndarray, of: Callable[[np.ndarray], Any]) -> Cell:
    if not len(differences):
        return Cell("–", "–")
    value = float(of(differences))
    return Cell(f"{value:+.3f}".replace("-", "−"), value)


def _mean(value: Interval, scale: float, digits: int) -> Cell:
    return Cell("–", "–") if math.isnan(value.mean) else Cell(f"{scale * value.mean:.{digits}f}", value.mean)


def claims(results: Results) -> list[Claim]:
    """That ν (auto) lowers the NLL where the shift hurts; over all shifts of a network together."""
    found = []
    for network, rows in by_network(results).items():
        runs = np.concatenate([changes(results, row, "nu_auto") for row in rows])
        hurting = runs[runs[:, 2] == 1, 0]
        if len(hurting):
            place = Place("all shifts that hurt", N_LABELS, network)
            found.append(Claim.about(place, "nll", interval_of(hurting), text="logarithm of the NLL {}"))
    return found


DEPLOYMENT = Study(
    name="deployment",
    title="Rows from where you deploy",
    question="Labels from one place, unlabelled and test rows from another: whose probabilities are right there?",
    rows=rows,
    defaults={"datasets": SHIFTS, "models": (PERCEPTRON, CONVOLUTIONAL), "members": MEMBERS},
    sections=(methods_section, shifts_section),
    claims=claims,
    notes=(
        "Perceptrons are trained as the classifiers do it; digits take LeNet, too, and photographs two members of it. "
        "The last row of each table of methods chooses by the test labels: it shows the room, and is no method.",
        "Shifts whose data are not at hand fail and are named; the folder is the one that NU_ENSEMBLES_DATA names.",
    ),
)
