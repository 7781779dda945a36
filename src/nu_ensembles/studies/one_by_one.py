"""Cells that train by themselves: methods whose members meet (joint, sequential), and those of several trainings.

What is one training is measured at every epoch on the way. The others have no epochs in between, so each length is a
run of its own.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from nu_ensembles.engine.train import Evaluate
from nu_ensembles.studies.cells import Cell
from nu_ensembles.studies.recipes import Arrived, Report, steps_of
from nu_ensembles.training import TrainingJob, predict_members, run_job


def train_by_itself(cell: Cell, job: TrainingJob, rows: np.ndarray, report: Report) -> Iterator[Arrived]:
    """Trains one cell.

    Raises:
      NonFiniteLossError: the training diverged.
    """
    stops = steps_of(cell)
    # Only the networks of the last step are kept, and further measurements ask for those of each.
    on_the_way = job.method.is_one_training and not cell.also
    for steps in [list(stops)] if on_the_way else [[step] for step in stops]:
        seen: dict[int, np.ndarray] = {}
        look = Evaluate(rows, steps, then=seen.__setitem__) if on_the_way else None
        members = run_job(job.replace(n_steps=steps[-1]), evaluate=look, for_good=False)
        predict = partial(predict_members, members, job.settings.dtype)
        report(steps[-1] * cell.n_members)
        for step in steps:
            yield Arrived(cell, stops[step], seen[step] if on_the_way else predict(rows), predict)
