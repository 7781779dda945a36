"""Cost: seconds of training for each epoch and member, standard, nu and Agree to Disagree [Figure 3, right].

Two trainings of different lengths are timed after one that compiles; the slope between them leaves out what every
training pays once. The paper divides the total time by epochs and members, and finds Agree to Disagree much dearer.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from nu_ensembles.studies.data import data_set
from nu_ensembles.studies.options import StudyOptions
from nu_ensembles.studies.protocols import check_methods, fixed_row, title_of
from nu_ensembles.studies.published import Setting
from nu_ensembles.studies.study import Row, Study

if TYPE_CHECKING:
    from nu_ensembles.studies.cells import Cell
    from nu_ensembles.studies.measurements import Context, Job, Outcome

# Epochs of the shorter training; the longer one has as many more as make some seconds on an accelerator.
SHORT, LONG = 2, 12
REPEATS = 3


def rows(options: StudyOptions) -> list[Row]:
    check_methods(options.methods)
    found = []
    for dataset in options.datasets:
        for n in options.n or (data_set(dataset).n_train,):
            for model in options.models:
                for method in options.methods:
                    where = options, dataset, n, model, method
                    row = fixed_row(*where, Setting(1e-3, LONG), title=title_of(method), protocol="cost", kind="cost")
                    found.append(row)
    return found


def cost_jobs(cells: Sequence[Cell], context: Context) -> Iterator[tuple[list[Cell], Job]]:
    """One job a cell: compile, then time."""
    from nu_ensembles.studies.measurements import Outcome

    for cell in cells:

        def job(report: Any, cell: Cell = cell) -> Iterator[Outcome]:
            found = measure(cell, context)
            report(cell.n_members * cell.epochs[-1])
            yield Outcome(cell, {"epochs": {str(cell.epochs[-1]): {"cost": found}}})

        yield [cell], job


def measure(cell: Cell, context: Context) -> dict[str, float]:
    """Seconds an epoch and member, milliseconds a step of all members, and what the first training took."""
    from nu_ensembles.studies.data import load_parts
    from nu_ensembles.studies.networks import network
    from nu_ensembles.studies.recipes import job_of
    from nu_ensembles.training import run_job, steps_in

    parts = load_parts(cell, context.data_dir)
    job = job_of(cell, network(cell, parts.n_classes), parts)
    short, long = (steps_in(epochs, cell.n_train, cell.batch_size) for epochs in (SHORT, max(cell.epochs)))
    long = max(long, short + 1)

    def seconds(steps: int) -> float:
        started = time.perf_counter()
        run_job(job.replace(n_steps=steps), for_good=False)
        return time.perf_counter() - started

    first = seconds(short)
    slopes = [(seconds(long) - seconds(short)) / (long - short) for _ in range(REPEATS)]
    a_step = statistics.median(slopes)
    per_epoch = steps_in(1, cell.n_train, cell.batch_size)
    return {
        "seconds_per_epoch_and_member": a_step * per_epoch / cell.n_members,
        "milliseconds_a_step": 1e3 * a_step,
        "first_seconds": first,
    }


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
    sections=("cost",),
    notes=(
        "An epoch is one pass over the labelled rows. Members of standard and ν-ensembles train side by side in one "
        "program, those of Agree to Disagree one after another, as its definition asks for.",
    ),
)
