"""Trains cells: those that share a program side by side, the others by themselves.

Members, seeds and hyper-parameters are lanes of one pool. A lane's key comes from its cell's seed and its member's
number alone, so a cell trained in company is the ensemble that `nu.fit` trains alone with the same seed, up to
rounding. A lane that fails stands still; the others go on. Methods whose members meet train by themselves, and so do
those of several trainings.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import jax
import numpy as np

from nu_ensembles.backend import Backend
from nu_ensembles.engine.assembly import Assembly, MemberSet, assemble
from nu_ensembles.engine.memory import lane_bytes, lanes_that_fit
from nu_ensembles.engine.pool import LanePool
from nu_ensembles.engine.train import Evaluate
from nu_ensembles.methods import Members, Networks
from nu_ensembles.models import Model
from nu_ensembles.problem import random_key
from nu_ensembles.training import TrainingJob, predict_members, run_job
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.measure.jobs import Arrived, Diverged, Report, job_of, method_of, steps_of
from nu_ensembles_studies.measure.parts import Parts

# Lanes whose state and activations fill this much memory keep a GPU busy; with more of them a step takes longer by as
# much, and a study that is stopped by its time limit loses more.
WORKING_SET = 6 << 30


class Group:
    """Cells of one program: same data, network, kind of method and batch sizes.

    Args:
      rows: what the members predict at every epoch that is measured.
      cells_at_once: how many cells train side by side at most; None lets the device decide.
    """

    def __init__(
        self, cells: Sequence[StudyCell], model: Model, parts: Parts, rows: np.ndarray, cells_at_once: int | None = None
    ) -> None:
        self.cells, self.rows, self.n_members = list(cells), rows, cells[0].n_members
        self.job = job_of(cells[0], model, parts)
        self.cells_at_once = cells_at_once or self._usual()

    def _usual(self) -> int:
        if not Backend.current().ensembles_share_a_program:
            return 1
        job, problem = self.job, self.job.problem
        with_unlabeled = job.method.uses_unlabeled and problem.n_unlabeled > 0
        program = job.settings.program(job.network, len(problem.x), problem.n_unlabeled)
        one_cell = self.n_members * lane_bytes(program, problem.row_shape, with_unlabeled)
        most = lanes_that_fit(program, problem.row_shape, with_unlabeled, jax.devices()[0]) // self.n_members
        return max(1, min(most, WORKING_SET // one_cell, len(self.cells)))

    def chunks(self) -> list[list[StudyCell]]:
        """The cells that train side by side; those of like length together, so that none waits for another."""
        ordered = sorted(self.cells, key=lambda cell: -max(cell.epochs))
        n_chunks = -(-len(ordered) // self.cells_at_once)
        # Chunks of one size where possible: another number of lanes is another compilation.
        size = -(-len(ordered) // n_chunks)
        return [ordered[i : i + size] for i in range(0, len(ordered), size)]

    def train(self, chunk: Sequence[StudyCell], report: Report) -> Iterator[Arrived | Diverged]:
        """Trains a chunk of cells.

        Raises:
          jax.errors.JaxRuntimeError: the device ran out of memory.
        """
        pool = LanePool(self.assembled(chunk), self.n_members, failures="mark")
        lanes = {cell: pool.lanes_of([number]) for number, cell in enumerate(chunk)}
        left = {cell: steps_of(cell) for cell in chunk}
        for step in sorted({step for stops in left.values() for step in stops}):
            pool.advance(step, lambda n_lane_steps, _: report(n_lane_steps))
            for cell in list(left):
                failed_at = pool.failed_at(lanes[cell])
                if failed_at.max() >= 0:
                    del left[cell]
                    yield _diverged(cell, failed_at)
            # Together, because a pool brings the networks of a whole group to the host.
            here = [cell for cell, stops in left.items() if step in stops]
            networks = self._networks(pool, [lanes[cell] for cell in here])
            for cell, members in zip(here, networks, strict=True):
                predict = partial(predict_members, members, self.job.settings.dtype)
                yield Arrived(cell, left[cell][step], predict(self.rows), predict)
            left = {cell: stops for cell, stops in left.items() if max(stops) > step}
            if not left:
                return
            pool.keep(np.concatenate([lanes[cell] for cell in left]))

    def assembled(self, cells: Sequence[StudyCell]) -> Assembly:
        """The members of all cells, ready to train."""
        n, job = self.n_members, self.job
        sets = [
            MemberSet(
                random_key(cell.seed),
                range(n),
                method_of(cell).base,
                learning_rates=[cell.learning_rate] * n,
                weight_decays=[cell.weight_decay] * n,
            )
            for cell in cells
        ]
        return assemble(job.network, job.settings, job.rows, len(job.problem.classes), sets)

    def _networks(self, pool: LanePool, lanes: Sequence[np.ndarray]) -> Iterator[Members]:
        """The members of each set of lanes."""
        if not lanes:
            return
        variables: Any = pool.variables(np.concatenate(lanes))
        for number in range(len(lanes)):
            own = slice(number * self.n_members, (number + 1) * self.n_members)
            yield Members(Networks(self.job.network, *jax.tree.map(lambda leaf, own=own: leaf[own], variables)))


def _diverged(cell: StudyCell, failed_at: np.ndarray) -> Diverged:
    members = np.flatnonzero(failed_at >= 0)
    which = ", ".join(map(str, members))
    return Diverged(
        cell,
        f"the loss of member {which} was not finite at step {failed_at[members].min()} (learning rate "
        f"{cell.learning_rate:g})",
    )


def train_by_itself(cell: StudyCell, job: TrainingJob, rows: np.ndarray, report: Report) -> Iterator[Arrived]:
    """Trains one cell: at all its epochs on the way, or, where there is no way between them, with a run for each.

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
