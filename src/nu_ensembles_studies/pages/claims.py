"""What the paper says, and what came out: the verdicts on a page."""

from __future__ import annotations

import math
from collections.abc import Sequence

from nu_ensembles.report.page import Cell, Column, Paragraph, Section, SortableTable
from nu_ensembles_studies.pages.names_and_cells import place_name, score_cell
from nu_ensembles_studies.results.claims import FAILS, HOLDS, RULE, SMALLER, Claim
from nu_ensembles_studies.results.intervals import BY_KEY, Interval
from nu_ensembles_studies.results.results import Results

_MARKS = {HOLDS: "better", SMALLER: "", FAILS: "worse"}


def claims_section(results: Results) -> Section | None:
    """Every claim with the published and the measured difference, and a verdict; a table for each protocol."""
    claims = results.study.claims(results)
    if not claims:
        return None
    blocks: list[Paragraph | SortableTable] = [Paragraph(RULE)]
    for protocol in dict.fromkeys(claim.place.protocol for claim in claims):
        of_protocol = [claim for claim in claims if claim.place.protocol == protocol]
        caption = f"Claims under the protocol “{protocol}”" if protocol else "Claims"
        each_once = len({(claim.place, claim.metric) for claim in of_protocol}) == len(of_protocol)
        blocks.append((_matrix if each_once else _list)(of_protocol, caption))
    return Section("What the paper says, and what came out", blocks)


def _matrix(claims: Sequence[Claim], caption: str) -> SortableTable:
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
    return SortableTable(caption, columns, lines, note=note)


def _claim_cell(claim: Claim | None) -> Cell:
    if claim is None:
        return Cell("–", "–")
    stated = "" if claim.published is None else f" [{_published(claim)}]"
    verdict = claim.verdict.replace(" ", "\N{NO-BREAK SPACE}")
    text = f"{verdict}: {BY_KEY[claim.metric].text(claim.measured, signed=True)}{stated}"
    return score_cell(claim.measured, text, _MARKS.get(claim.verdict) or "partly")


def _list(claims: Sequence[Claim], caption: str) -> SortableTable:
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
        metric, stated = BY_KEY[claim.metric], _published(claim)
        rows.append(
            [
                Cell(place_name(claim.place)),
                Cell(metric.title),
                Cell(claim.text),
                Cell(claim.verdict, mark=_MARKS.get(claim.verdict, "")),
                Cell(stated, claim.published if claim.published is not None else "–"),
                score_cell(claim.measured, metric.text(claim.measured, signed=True)),
            ]
        )
    return SortableTable(caption, columns, rows)


def _published(claim: Claim) -> str:
    if claim.published is None:
        return "–"
    return BY_KEY[claim.metric].text(Interval(claim.published, math.nan), signed=True)
