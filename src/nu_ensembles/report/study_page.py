"""A study's page: what the paper claims and what came out, the scores beside the published ones, figures, how it ran.

Each study names its sections; one that has nothing to show is left out.
"""

from __future__ import annotations

from collections.abc import Callable

from nu_ensembles.report.page import HowItWasRun, Page, Paragraph, Section
from nu_ensembles.report.study_comparisons import COMPARISONS
from nu_ensembles.report.study_curves import CURVES
from nu_ensembles.report.study_figures import FIGURES
from nu_ensembles.report.study_maps import MAPS
from nu_ensembles.report.study_tables import TABLES, place_name
from nu_ensembles.studies.claims import FAILS, HOLDS, OPEN, SMALLER
from nu_ensembles.studies.provenance import in_words
from nu_ensembles.studies.results import Results
from nu_ensembles.studies.study import cells_of

SECTIONS: dict[str, Callable[[Results], Section | None]] = {**TABLES, **FIGURES, **CURVES, **MAPS, **COMPARISONS}
# Reasons and names of this many cells are listed; the rest is counted.
LISTED = 20
# Verdicts on one claim and on several.
IN_WORDS = {
    HOLDS: ("holds", "hold"),
    SMALLER: ("holds but is smaller", "hold but are smaller"),
    FAILS: ("does not hold", "do not hold"),
    OPEN: ("is not settled", "are not settled"),
}


def study_page(results: Results) -> Page:
    """The page of a study, finished or not; it shows what was measured, whatever it is."""
    found = [SECTIONS[name](results) for name in results.study.sections]
    sections = [section for section in found if section is not None]
    missing = _missing(results)
    notes = [Section("To read the numbers", [Paragraph(note) for note in results.study.notes])]
    return Page(
        title=results.study.title,
        lead=[results.study.question, *headline(results)],
        sections=[*sections, *(missing or []), *(notes if results.study.notes else [])],
        run=how_it_was_run(results),
    )


def headline(results: Results) -> list[str]:
    """What came out in a sentence or two."""
    sentences = []
    claims = results.study.claims(results)
    for protocol in dict.fromkeys(claim.place[3] for claim in claims):
        verdicts = [claim.verdict for claim in claims if claim.place[3] == protocol]
        numbers = {verdict: verdicts.count(verdict) for verdict in IN_WORDS}
        counts = [f"{n} {IN_WORDS[verdict][n > 1]}" for verdict, n in numbers.items() if n]
        under = f" under the {protocol} protocol" if protocol else ""
        sentences.append(f"Of {len(verdicts)} claims{under}, {', '.join(counts)}.")
    n_failed, n_missing = len(results.failures()), len(results.missing())
    if n_failed or n_missing:
        sentences.append(f"{n_missing} cells have not been trained, {n_failed} failed; they are listed below.")
    if results.options.quick:
        sentences.append("This was a quick run that shows that the study works: its numbers mean nothing.")
    return sentences


def how_it_was_run(results: Results) -> HowItWasRun:
    """Commands, seeds, time and machine."""
    options, records = results.options, results.declared()
    seconds = sum(record.seconds for record in records)
    members = sorted({cell.n_members for cell in cells_of(results.rows)})
    settings = {
        "Members": " and ".join(map(str, members)),
        "Cells": f"{len(records)}, {seconds:.0f} s of training and scoring, compilation included",
        "Made by": "; ".join(in_words(maker) for maker in results.makers()) or "nothing yet",
        "Selection rule": options.rule,
    }
    commands = results.about.get("commands", [])
    if len(commands) > 1:
        settings["Earlier commands"] = "; ".join(commands[:-1])
    return HowItWasRun(
        command=commands[-1] if commands else "",
        seeds=list(options.seed_list),
        seconds=results.about.get("seconds", 0.0),
        environment=results.about.get("environment", {}),
        settings=settings,
    )


def _missing(results: Results) -> list[Section] | None:
    failures, missing = results.failures(), results.missing()
    if not failures and not missing:
        return None
    lines = [f"Failed: {record.cell.title}: {record.reason}" for record in failures]
    by_place: dict[str, int] = {}
    for cell in missing:
        name = f"{place_name((cell.dataset, cell.n_train, cell.model, ''))} {cell.method}"
        by_place[name] = by_place.get(name, 0) + 1
    lines += [f"Not trained: {name} ({count} cells)" for name, count in by_place.items()]
    shown = lines[:LISTED] + ([f"… and {len(lines) - LISTED} more."] if len(lines) > LISTED else [])
    return [Section("Missing and failed cells", [Paragraph(line) for line in shown])]
