"""A study's page: what came out in a sentence, the study's own sections, what is missing, and how it was run."""

from __future__ import annotations

from nu_ensembles.report.page import HowItWasRun, Page, Paragraph, Section
from nu_ensembles_studies.declare.study import Place, cells_of
from nu_ensembles_studies.pages.names_and_cells import place_name
from nu_ensembles_studies.results.claims import FAILS, HOLDS, OPEN, SMALLER
from nu_ensembles_studies.results.makers import in_words
from nu_ensembles_studies.results.results import Results

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
    found = [*(section(results) for section in results.study.sections), _missing(results), _notes(results)]
    return Page(
        title=results.study.title,
        lead=[results.study.question, *headline(results)],
        sections=[section for section in found if section is not None],
        run=how_it_was_run(results),
    )


def headline(results: Results) -> list[str]:
    """What came out in a sentence or two."""
    sentences = []
    claims = results.study.claims(results)
    for protocol in dict.fromkeys(claim.place.protocol for claim in claims):
        verdicts = [claim.verdict for claim in claims if claim.place.protocol == protocol]
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


def _missing(results: Results) -> Section | None:
    failures, missing = results.failures(), results.missing()
    if not failures and not missing:
        return None
    lines = [f"Failed: {record.cell.title}: {record.reason}" for record in failures]
    names = [f"{place_name(Place(cell.dataset, cell.n_train, cell.model))} {cell.method}" for cell in missing]
    lines += [f"Not trained: {name} ({names.count(name)} cells)" for name in dict.fromkeys(names)]
    shown = lines[:LISTED] + ([f"… and {len(lines) - LISTED} more."] if len(lines) > LISTED else [])
    return Section("Missing and failed cells", [Paragraph(line) for line in shown])


def _notes(results: Results) -> Section | None:
    notes = [Paragraph(note) for note in results.study.notes]
    return Section("To read the numbers", notes) if notes else None
