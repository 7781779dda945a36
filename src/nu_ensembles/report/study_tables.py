"""The tables of a study's page: claims with verdicts, scores beside the published ones, temperature, fit on U."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from nu_ensembles.report.page import Cell, Column, Paragraph, Section, Table
from nu_ensembles.studies.claims import FAILS, HOLDS, RULE, SMALLER, Claim
from nu_ensembles.studies.comparison import METRICS, Interval, Metric
from nu_ensembles.studies.data import DATASETS
from nu_ensembles.studies.networks import MODELS
from nu_ensembles.studies.published import table_value
from nu_ensembles.studies.results import Results
from nu_ensembles.studies.study import Row

BY_KEY = {metric.key: metric for metric in METRICS}
# Of guessing: below this many times its accuracy a member counts as having learnt nothing.
NEAR_CHANCE = 1.5
SCALED = ("nll", "ece", "tace", "brier_reliability")
_MARKS = {HOLDS: "better", SMALLER: "", FAILS: "worse"}
PROTOCOL_MEANING = {
    "published": "the paper's hyper-parameters, one set for each method",
    "matched": "ν's learning rate and epochs for every method",
    "selected": "every method tuned on the validation rows, seed by seed, training length included",
    "fixed": "one strength for each method, the same number of steps for all",
    "fixed steps": "as many steps, more unlabelled rows are visited less often each",
    "fixed visits": "as many steps, the unlabelled batch grows with the rows",
}


def place_name(place: tuple[str, int, str, str]) -> str:
    """ "CIFAR-10, LeNet", with the number of labels where it is not the usual one."""
    dataset, n_train, model, _ = place
    about = DATASETS.get(dataset)
    title = about.title if about else dataset
    size = "" if about and n_train == about.n_train else f", n = {n_train}"
    return f"{title}, {MODELS.get(model, model)}{size}"


def row_name(row: Row) -> str:
    """The place and the method of a row."""
    return f"{place_name(row.place)}: {row.title}"


def claims_section(results: Results) -> Section | None:
    """Every claim with the published and the measured difference, and a verdict; a table for each protocol."""
    claims = results.study.claims(results)
    if not claims:
        return None
    blocks: list[Paragraph | Table] = [Paragraph(RULE)]
    for protocol in dict.fromkeys(claim.place[3] for claim in claims):
        of_protocol = [claim for claim in claims if claim.place[3] == protocol]
        caption = f"Claims under the protocol “{protocol}”" if protocol else "Claims"
        each_once = len({(claim.place, claim.metric) for claim in of_protocol}) == len(of_protocol)
        blocks.append((claims_matrix if each_once else claims_table)(of_protocol, caption))
    return Section("What the paper says, and what came out", blocks)


def claims_matrix(claims: Sequence[Claim], caption: str) -> Table:
    """A line for each place, a column for each score: the verdict, our difference, the published one in brackets."""
    keys = list(dict.fromkeys(claim.metric for claim in claims))
    columns = [Column("ν minus standard", text=True)]
    for key in keys:
        said = next(claim.text for claim in claims if claim.metric == key)
        columns.append(Column(BY_KEY[key].title, f"Claim: {said}. {BY_KEY[key].meaning}"))
    lines = []
    for place in dict.fromkeys(claim.place for claim in claims):
        by_key = {claim.metric: claim for claim in claims if claim.place == place}
        lines.append([Cell(place_name(place)), *(_claim_cell(by_key.get(key)) for key in keys)])
    note = (
        "Mean over seeds of the difference on the same seed, ± its 95 % interval; in square brackets the published one."
    )
    return Table(caption, columns, lines, note=note)


def _claim_cell(claim: Claim | None) -> Cell:
    if claim is None:
        return Cell("–", "–")
    metric = BY_KEY[claim.metric]
    stated = "" if claim.published is None else f" [{metric.text(Interval(claim.published, math.nan), signed=True)}]"
    verdict = claim.verdict.replace(" ", "\N{NO-BREAK SPACE}")
    text = f"{verdict}: {metric.text(claim.measured, signed=True)}{stated}"
    return Cell(text, _sortable(claim.measured), _MARKS.get(claim.verdict) or "partly")


def claims_table(claims: Sequence[Claim], caption: str) -> Table:
    """Where, what, the verdict, the published difference and ours."""
    columns = [
        Column("Where", text=True),
        Column("Score", text=True),
        Column("Claim about ν", text=True),
        Column("Verdict", text=True),
        Column("Published Δ", "Difference in the paper, one ensemble each; a dash where it gives none."),
        Column("Our Δ", "Mean over seeds of the difference on the same seed, with its 95 % interval."),
    ]
    rows = []
    for claim in claims:
        metric = BY_KEY[claim.metric]
        stated = "–" if claim.published is None else metric.text(Interval(claim.published, math.nan), signed=True)
        rows.append(
            [
                Cell(place_name(claim.place)),
                Cell(metric.title),
                Cell(claim.text),
                Cell(claim.verdict, mark=_MARKS.get(claim.verdict, "")),
                Cell(stated, claim.published if claim.published is not None else "–"),
                Cell(metric.text(claim.measured, signed=True), _sortable(claim.measured)),
            ]
        )
    return Table(caption, columns, rows)


def scores_section(results: Results) -> Section:
    """A table for each protocol: every row with mean ± interval, and the published value in brackets."""
    blocks: list[Paragraph | Table] = []
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
        blocks.append(scores_table(results, rows, f"{name}; mean ± 95 % interval over seeds"))
    return Section("Scores on the test rows", blocks)


def scores_table(results: Results, rows: Sequence[Row], caption: str) -> Table:
    """Every metric of every row; `[…]` is the published value."""
    lines = []
    for row in rows:
        cells = [Cell(row_name(row))]
        for metric in METRICS:
            cells.append(_with_published(metric, results.mean(row, metric.key), published_value(row, metric.key)))
        lines.append(cells)
    columns = [Column("Trained how", text=True), *(Column(metric.title, metric.meaning) for metric in METRICS)]
    any_published = any(published_value(row, "ece") is not None for row in rows)
    note = (
        "In square brackets: the value in the paper's Table 1, one ensemble without an interval."
        if any_published
        else ""
    )
    return Table(caption, columns, lines, note=note)


def temperature_section(results: Results) -> Section | None:
    """Scores after temperature scaling fitted on the validation rows, for every row."""
    rows = [row for row in results.rows if not math.isnan(results.mean(row, "temperature", "").mean)]
    if not rows:
        return None
    metrics = [BY_KEY[key] for key in SCALED]
    columns = [
        Column("Trained how", text=True),
        Column("Protocol", text=True),
        Column("T", "Temperature fitted on the validation rows; above 1 softens."),
        *(Column(metric.title, metric.meaning) for metric in metrics),
    ]
    lines = []
    for row in rows:
        temperature = results.mean(row, "temperature", "")
        cells = [Cell(row_name(row)), Cell(row.protocol), Cell(temperature.text(2), _sortable(temperature))]
        for metric in metrics:
            value = results.mean(row, metric.key, "scaled")
            cells.append(Cell(metric.text(value), _sortable(value)))
        lines.append(cells)
    text = (
        "One number, fitted on the validation rows, applied to the mean probability: what a standard ensemble gains at "
        "almost no cost. A method that is better only before it may be doing the same job."
    )
    return Section("After temperature scaling", [Paragraph(text), Table("With temperature", columns, lines)])


def members_section(results: Results) -> Section | None:
    """Do all members learn? One at chance lowers the mean confidence and the mutual information of the others."""
    columns = [
        Column("Trained how", text=True),
        Column("Protocol", text=True),
        Column("Worst member %", "Accuracy on the test rows of the least accurate member of any seed."),
        Column("Best member %", "Accuracy on the test rows of the most accurate member of any seed."),
        Column("At chance", "Members, of all seeds, whose accuracy is less than 1.5 times that of guessing."),
    ]
    lines = []
    for row in results.rows:
        found = [accuracy for members in results.extras(row, "members") if members for accuracy in members["accuracy"]]
        if found:
            n_lost = sum(accuracy < NEAR_CHANCE / DATASETS[row.dataset].n_classes for accuracy in found)
            ends = [Cell(f"{100 * end:.1f}", end) for end in (min(found), max(found))]
            share = Cell(f"{n_lost} of {len(found)}", n_lost, "worse" if n_lost else "")
            lines.append([Cell(row_name(row)), Cell(row.protocol), *ends, share])
    if not lines:
        return None
    text = (
        "A member that learnt nothing predicts the same for every row. It makes the mean less confident, which can "
        "pass for better calibration, and shares no information with the others, which can pass for diversity."
    )
    return Section("Did every member learn?", [Paragraph(text), Table("Members", columns, lines)])


def unlabeled_section(results: Results) -> Section | None:
    """Were the random labels fitted, and did the variance rise as Proposition 1 says?"""
    rows = [row for row in results.rows if not math.isnan(results.mean(row, "variance", "unlabeled").mean)]
    if not rows:
        return None
    columns = [
        Column("Trained how", text=True),
        Column("Protocol", text=True),
        Column(
            "Fit on U", "Share of unlabelled rows on which a member predicts its own random label; mean over members."
        ),
        Column("Chance", "One divided by the number of classes."),
        Column("V̂ on U", "Variance of the members' probabilities of the true label [eq. 2]."),
        Column("(K−1)/(2cK)", "What V̂ would be if every member fitted its labels perfectly [Proposition 1]."),
    ]
    lines = []
    for row in rows:
        fit = results.mean(row, "accuracy_on_random_labels", "unlabeled")
        variance = results.mean(row, "variance", "unlabeled")
        expected = results.mean(row, "expected_variance", "unlabeled").mean
        chance = 1 / DATASETS[row.dataset].n_classes
        lines.append(
            [
                Cell(row_name(row)),
                Cell(row.protocol),
                Cell(fit.text(3), _sortable(fit)),
                Cell(f"{chance:.2f}", chance),
                Cell(variance.text(4), _sortable(variance)),
                Cell(f"{expected:.4f}", expected),
            ]
        )
    text = (
        "The theory behind ν-ensembles assumes that every member fits its random labels. Where the fit stays near "
        "chance, V̂ cannot rise for that reason, and the labels act as a penalty on confidence."
    )
    return Section("Were the random labels fitted?", [Paragraph(text), Table("Unlabelled rows", columns, lines)])


def published_value(row: Row, metric: str) -> float | None:
    """What Table 1 says about a row, if it was trained as the paper's was: one n, one m, one way to draw labels."""
    as_in_the_paper = (
        row.n_train == 1000
        and row.setting("labels") in (None, "without_replacement")
        and row.setting("m") in (None, 0, 5000)
        and (row.method in ("standard", "nu") or row.protocol == "published")
    )
    return table_value(row.dataset, row.model, row.method, metric) if as_in_the_paper else None


def _with_published(metric: Metric, value: Interval, stated: float | None) -> Cell:
    text = metric.text(value)
    if stated is not None:
        text += f" [{metric.text(Interval(stated, math.nan))}]"
    return Cell(text, _sortable(value))


def _sortable(value: Interval) -> float | str:
    return "–" if math.isnan(value.mean) else value.mean


TABLES: dict[str, Callable[[Results], Section | None]] = {
    "claims": claims_section,
    "scores": scores_section,
    "temperature": temperature_section,
    "members": members_section,
    "unlabeled": unlabeled_section,
}
