"""Cost: seconds of training for each epoch and member, standard, nu and Agree to Disagree [Figure 3, right].

The paper divides the total time by epochs and members, and finds Agree to Disagree much dearer.
"""

from __future__ import annotations

import numpy as np

from nu_ensembles.report.page import Cell, Column, Section, SortableTable
from nu_ensembles_studies.declare.options import StudyOptions
from nu_ensembles_studies.declare.protocols import check_methods, make_row, places
from nu_ensembles_studies.declare.published import Setting
from nu_ensembles_studies.declare.study import Row, Study
from nu_ensembles_studies.pages.names_and_cells import row_name, score_cell
from nu_ensembles_studies.results.intervals import interval_of
from nu_ensembles_studies.results.results import Results

EPOCHS = 12


def rows(options: StudyOptions) -> list[Row]:
    check_methods(options.methods)
    setting = Setting(1e-3, EPOCHS)
    return [
        make_row(options, place, method, [setting], kind="cost")
        for place in places(options, "cost")
        for method in options.methods
    ]


def cost_section(results: Results) -> Section | None:
    """Seconds an epoch and member, and relative to the standard ensemble."""
    columns = [
        Column("Trained how", text=True),
        Column("ms, epoch and member", "Milliseconds of training for one epoch of one member, all members together."),
        Column("Times standard", "Relative to the standard ensemble of the same network."),
        Column("ms a step", "Milliseconds of a step of all members."),
        Column("First run, s", "The first training, with its compilation."),
    ]
    lines = []
    for row in results.rows:
        seconds, a_step, first = (
            results.values(row, name, "cost")
            for name in ("seconds_per_epoch_and_member", "milliseconds_a_step", "first_seconds")
        )
        if np.isnan(seconds).all():
            continue
        standard = results.find("standard", row.place)
        base = np.nan if standard is None else results.values(standard, "seconds_per_epoch_and_member", "cost")
        values = (1e3 * seconds, 2), (seconds / base, 2), (a_step, 3), (first, 1)
        intervals = [(interval_of(each), digits) for each, digits in values]
        lines.append([Cell(row_name(row)), *(score_cell(each, each.text(digits)) for each, digits in intervals)])
    return Section("Time", [SortableTable("Time of training", columns, lines)]) if lines else None


COST = Study(
    name="cost",
    title="What does training cost?",
    question="How long does an epoch take for each member, with standard, ν and Agree to Disagree ensembles?",
    rows=rows,
    defaults={
        "datasets": ("cifar10",),
        "models": ("lenet", "mlp", "wrn-22-4"),
        "methods": ("standard", "nu", "agree_to_disagree"),
    },
    sections=(cost_section,),
    notes=(
        "An epoch is one pass over the labelled rows. Members of standard and ν-ensembles train side by side in one "
        "program, those of Agree to Disagree one after another, as its definition asks for.",
    ),
)
