"""The page of a search: what came out, what mattered, how the trials went."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles.report.page import (
    Block,
    Card,
    Cell,
    Column,
    Gallery,
    HowItWasRun,
    Page,
    Paragraph,
    Picture,
    Section,
    SortableTable,
    Tile,
    write_page,
)
from nu_ensembles.searches.naming import used
from nu_ensembles.searches.outcome import SearchOutcome, in_words
from nu_ensembles.searches.pictures import curves, front, importance_bars, importances, parallel_coordinates
from nu_ensembles.searches.trial import SearchTrial, better_first

PAGE = "report.html"
MOST_ROWS = 500


def write_search_page(
    path: str | Path, outcome: SearchOutcome, command: str, seconds: float, environment: Mapping[str, Any]
) -> None:
    """Draws the page of a search in which some trial came to something."""
    write_page(path, search_page(outcome, command, seconds, environment))


def search_page(outcome: SearchOutcome, command: str, seconds: float, environment: Mapping[str, Any]) -> Page:
    """The page of a search."""
    best, first, setting = outcome.best, outcome.objectives[0], outcome.setting
    tiles = [Tile(first.name, f"{best.value:.4f}", f"trial {best.number}, {best.n_steps} steps")]
    if np.isfinite(outcome.expected):
        tiles.append(Tile("picked on other rows", f"{outcome.expected:.4f}", f"{first.name} that to expect"))
    tiles.append(Tile("trials", str(len(outcome.trials)), f"{sum(each.failed for each in outcome.trials)} failed"))
    lead = [outcome.verdict]
    if len(outcome.trials) < outcome.n_wanted:
        lead.append(f"{outcome.n_wanted - len(outcome.trials)} trials are left: the same command goes on.")
    rows = f"{len(setting.problem.x)} labelled and {setting.problem.n_unlabeled} unlabelled rows"
    return Page(
        title="A search of hyper-parameters",
        lead=lead,
        card=Card(tiles, [f"Trained on {rows}, {setting.n_members} networks a fold."]),
        sections=[
            *([_front(outcome)] if len(outcome.objectives) > 1 else []),
            _what_mattered(outcome),
            _how_they_went(outcome),
            Section("All trials", [_table(outcome)]),
        ],
        run=HowItWasRun(
            command=command,
            seeds=[setting.seed],
            seconds=seconds,
            environment=environment,
            settings={"Space": "; ".join(f"{n}: {v}" for n, v in setting.space.to_dict().items())},
        ),
    )


def _front(outcome: SearchOutcome) -> Section:
    first, second = outcome.objectives
    columns = [
        Column("Trial"),
        Column("Steps"),
        Column(first.name),
        Column(second.name),
        Column("Trained how", text=True),
    ]
    rows = [
        [
            Cell(str(point.trial.number), point.trial.number),
            Cell(str(point.n_steps), point.n_steps),
            *(Cell(f"{value:.4f}", value) for value in point.values),
            Cell(in_words(used(point.trial.parameters, outcome.setting.fixed))),
        ]
        for point in outcome.front
    ]
    drawn = Picture(
        front(outcome),
        "Grey: trials at their stops. Blue: those that no other beats in both.",
        f"{second.name} against {first.name} of all trials at all stops; {len(rows)} of them lie on the front.",
    )
    return Section("Two objectives", [Gallery([drawn], wide=True), SortableTable("The front", columns, rows)])


def _what_mattered(outcome: SearchOutcome) -> Section:
    blocks: list[Block] = []
    shares = importances(outcome)
    if shares:
        said = ", ".join(f"{name} {share:.0%}" for name, share in shares.items())
        caption = "How much of what the better trials have in common goes back to a parameter (PED-ANOVA)."
        blocks.append(Gallery([Picture(importance_bars(shares), caption, f"Importance: {said}.")], wide=True))
    else:
        blocks.append(Paragraph("Too few trials ended to say which parameters matter."))
    drawn = parallel_coordinates(outcome)
    caption = "A line is a trial, from parameter to parameter: the thickest is the best, blue the best tenth."
    alt = f"Parallel coordinates of {len(outcome.trials)} trials; the best has {in_words(outcome.best_parameters)}."
    return Section("What mattered", [*blocks, Gallery([Picture(drawn, caption, alt)], wide=True)])


def _how_they_went(outcome: SearchOutcome) -> Section:
    best = outcome.best
    pictures = [
        Picture(
            curves(outcome, each),
            f"{each.name} on held-out rows along every trial's way; blue is trial {best.number}, the best.",
            f"{each.name} against steps for all trials; trial {best.number} is best after {best.n_steps} steps.",
        )
        for each in outcome.objectives
    ]
    about = (
        "Every trial is scored at these steps, so the length of training is read off and not searched for. A line that "
        "ends early was clearly past its best."
    )
    return Section("How the trials went", [Paragraph(about), Gallery(pictures, wide=True)])


def _table(outcome: SearchOutcome) -> SortableTable:
    names = outcome.setting.space.names
    objectives = outcome.objectives
    columns = [
        Column("Trial"),
        *(Column(each.name) for each in objectives),
        Column("Steps"),
        *(Column(name) for name in names),
        Column("Note", text=True),
    ]
    failed = [each for each in outcome.trials if each.failed]
    shown = [*better_first(outcome.trials), *failed][:MOST_ROWS]
    note = f"The best {MOST_ROWS} of {len(outcome.trials)}." if len(shown) < len(outcome.trials) else ""
    return SortableTable("The best first", columns, [_row(outcome, each) for each in shown], note=note)


def _row(outcome: SearchOutcome, trial: SearchTrial) -> list[Cell]:
    values = trial.values or (float("nan"),) * len(outcome.objectives)
    has = used(trial.parameters, outcome.setting.fixed)
    cells = [Cell(str(trial.number), trial.number)]
    cells += [Cell("–" if np.isnan(v) else f"{v:.4f}", float(v)) for v in values]
    cells.append(Cell("–", -1.0) if trial.failed else Cell(str(trial.n_steps), trial.n_steps))
    for name in outcome.setting.space.names:
        value = has.get(name)
        text = "–" if name not in has else f"{value:.3g}" if isinstance(value, float) else str(value)
        cells.append(Cell(text, value if isinstance(value, int | float) and not isinstance(value, bool) else text))
    return [*cells, Cell(trial.reason)]
