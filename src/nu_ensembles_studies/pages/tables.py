"""Tables that several studies show: scores beside the published ones, temperature, members, the fit on U."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nu_ensembles.report.page import Cell, Column, Paragraph, Section, SortableTable
from nu_ensembles_studies.declare.data_sets import DATASETS
from nu_ensembles_studies.declare.study import Row
from nu_ensembles_studies.pages.names_and_cells import mean_cell, published_value, row_cells, row_name, score_cell
from nu_ensembles_studies.results.intervals import BY_KEY, METRICS, Interval, Metric
from nu_ensembles_studies.results.results import Results

# Of guessing: below this many times its accuracy a member counts as having learnt nothing.
NEAR_CHANCE = 1.5
SCALED = ("nll", "ece", "tace", "brier_reliability")
PROTOCOL_MEANING = {
    "published": "the paper's hyper-parameters, one set for each method",
    "matched": "ν's learning rate and epochs for every method",
    "selected": "every method tuned on the validation rows, seed by seed, training length included",
    "fixed": "one strength for each method, the same number of steps for all",
    "fixed steps": "as many steps, more unlabelled rows are visited less often each",
    "fixed visits": "as many steps, the unlabelled batch grows with the rows",
}
METRIC_COLUMNS = [Column(metric.title, metric.meaning) for metric in METRICS]
TRAINED_HOW = [Column("Trained how", text=True), Column("Protocol", text=True)]


def scores_section(results: Results) -> Section:
    """A table for each protocol: every row with mean ± interval, and the published value in brackets."""
    blocks: list[Paragraph | SortableTable] = []
    for protocol in dict.fromkeys(row.protocol for row in results.rows):
        of_protocol = [row for row in results.rows if row.protocol == protocol and row.scored]
        rows = [row for row in of_protocol if any(results.chosen(row))]  # the others are listed as missing
        if not rows:
            continue
        meaning = PROTOCOL_MEANING.get(protocol)
        if meaning is not None and protocol == "published" and any(row.dataset == "digits" for row in results.rows):
            meaning += "; on the digits, which the paper does not have, ours"
        name = f"Protocol “{protocol}”" if protocol else "Test scores"
        name = f"{name}: {meaning}" if meaning else name
        blocks.append(_scores_table(results, rows, f"{name}; mean ± 95 % interval over seeds"))
    return Section("Scores on the test rows", blocks)


def _scores_table(results: Results, rows: Sequence[Row], caption: str) -> SortableTable:
    """Every metric of every row; `[…]` is the published value."""
    lines = []
    for row in rows:
        scores = ((metric, results.mean(row, metric.key), published_value(row, metric.key)) for metric in METRICS)
        lines.append([Cell(row_name(row)), *(_with_published(*each) for each in scores)])
    note = ""
    if any(published_value(row, "ece") is not None for row in rows):
        note = "In square brackets: the value in the paper's Table 1, one ensemble without an interval."
    return SortableTable(caption, [Column("Trained how", text=True), *METRIC_COLUMNS], lines, note=note)


def _with_published(metric: Metric, value: Interval, stated: float | None) -> Cell:
    beside = "" if stated is None else f" [{metric.text(Interval(stated, math.nan))}]"
    return score_cell(value, metric.text(value) + beside)


def temperature_section(results: Results) -> Section | None:
    """Scores after temperature scaling fitted on the validation rows, for every row."""
    metrics = [BY_KEY[key] for key in SCALED]
    lines = []
    for row in results.rows:
        temperature = results.mean(row, "temperature", "")
        if not math.isnan(temperature.mean):
            scaled = [mean_cell(metric, results.mean(row, metric.key, "scaled")) for metric in metrics]
            lines.append([*row_cells(row), score_cell(temperature, temperature.text(2)), *scaled])
    if not lines:
        return None
    columns = [
        *TRAINED_HOW,
        Column("T", "Temperature fitted on the validation rows; above 1 softens."),
        *(Column(metric.title, metric.meaning) for metric in metrics),
    ]
    text = (
        "One number, fitted on the validation rows, applied to the mean probability: what a standard ensemble gains at "
        "almost no cost. A method that is better only before it may be doing the same job."
    )
    return Section("After temperature scaling", [Paragraph(text), SortableTable("With temperature", columns, lines)])


def members_section(results: Results) -> Section | None:
    """Do all members learn? One at chance lowers the mean confidence and the mutual information of the others."""
    lines = []
    for row in results.rows:
        found = [accuracy for members in results.further(row, "members") if members for accuracy in members["accuracy"]]
        if found:
            n_lost = sum(accuracy < NEAR_CHANCE / DATASETS[row.dataset].n_classes for accuracy in found)
            ends = [Cell(f"{100 * end:.1f}", end) for end in (min(found), max(found))]
            share = Cell(f"{n_lost} of {len(found)}", n_lost, "worse" if n_lost else "")
            lines.append([*row_cells(row), *ends, share])
    if not lines:
        return None
    columns = [
        *TRAINED_HOW,
        Column("Worst member %", "Accuracy on the test rows of the least accurate member of any seed."),
        Column("Best member %", "Accuracy on the test rows of the most accurate member of any seed."),
        Column("At chance", "Members, of all seeds, whose accuracy is less than 1.5 times that of guessing."),
    ]
    text = (
        "A member that learnt nothing predicts the same for every row. It makes the mean less confident, which can "
        "pass for better calibration, and shares no information with the others, which can pass for diversity."
    )
    return Section("Did every member learn?", [Paragraph(text), SortableTable("Members", columns, lines)])


def unlabeled_section(results: Results) -> Section | None:
    """Were the random labels fitted, and did the variance rise as Proposition 1 says?"""
    lines = []
    for row in results.rows:
        fit, variance, expected = (
            results.mean(row, name, "unlabeled")
            for name in ("accuracy_on_random_labels", "variance", "expected_variance")
        )
        if not math.isnan(variance.mean):
            chance = 1 / DATASETS[row.dataset].n_classes
            cells = score_cell(fit, fit.text(3)), Cell(f"{chance:.2f}", chance), score_cell(variance, variance.text(4))
            lines.append([*row_cells(row), *cells, Cell(f"{expected.mean:.4f}", expected.mean)])
    if not lines:
        return None
    columns = [
        *TRAINED_HOW,
        Column(
            "Fit on U", "Share of unlabelled rows on which a member predicts its own random label; mean over members."
        ),
        Column("Chance", "One divided by the number of classes."),
        Column("V̂ on U", "Variance of the members' probabilities of the true label [eq. 2]."),
        Column("(K−1)/(2cK)", "What V̂ would be if every member fitted its labels perfectly [Proposition 1]."),
    ]
    text = (
        "The theory behind ν-ensembles assumes that every member fits its random labels. Where the fit stays near "
        "chance, V̂ cannot rise for that reason, and the labels act as a penalty on confidence."
    )
    blocks = [Paragraph(text), SortableTable("Unlabelled rows", columns, lines)]
    return Section("Were the random labels fitted?", blocks)
