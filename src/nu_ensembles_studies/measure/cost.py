"""Seconds of training. Two trainings of different lengths are timed after one that compiles; the slope between them
leaves out what every training pays once.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from nu_ensembles.training import run_job, steps_in
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.networks import network
from nu_ensembles_studies.measure.jobs import job_of
from nu_ensembles_studies.measure.parts import Parts

# Epochs of the shorter training; the cell's are as many more as make some seconds on an accelerator.
SHORT = 2
REPEATS = 3


def cost_scores(cell: StudyCell, parts: Parts) -> dict[str, Any]:
    """Seconds an epoch and member, milliseconds a step of all members, and what the first training took."""
    job = job_of(cell, network(cell, parts.n_classes), parts)
    short = steps_in(SHORT, cell.n_train, cell.batch_size)
    long = max(job.n_steps, short + 1)

    def seconds(steps: int) -> float:
        started = time.perf_counter()
        run_job(job.replace(n_steps=steps), for_good=False)
        return time.perf_counter() - started

    first = seconds(short)
    slopes = [(seconds(long) - seconds(short)) / (long - short) for _ in range(REPEATS)]
    a_step = statistics.median(slopes)
    per_epoch = steps_in(1, cell.n_train, cell.batch_size)
    found = {
        "seconds_per_epoch_and_member": a_step * per_epoch / cell.n_members,
        "milliseconds_a_step": 1e3 * a_step,
        "first_seconds": first,
    }
    return {"cost": found}
