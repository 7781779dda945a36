"""Trains the cells of one group together: members, seeds and hyper-parameters side by side as lanes of one program.

A lane's key comes from its cell's seed and its member's number alone, so a cell trained in company is the ensemble that
`nu.fit` trains alone with the same seed, up to rounding. A lane that fails stands still; the others go on.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nu_ensembles.engine.assembly import member_lanes, on_device
from nu_ensembles.engine.fast.compilation import use_persistent_cache
from nu_ensembles.engine.memory import lane_bytes
from nu_ensembles.engine.plans import Plan, choose_plan
from nu_ensembles.engine.predict import predict_lanes
from nu_ensembles.engine.program import Lanes, Program, TrainingData
from nu_ensembles.engine.run import Run
from nu_ensembles.errors import NonFiniteLossError
from nu_ensembles.methods.labels import random_key
from nu_ensembles.models import Model
from nu_ensembles.studies.cells import Cell
from nu_ensembles.studies.data import Parts
from nu_ensembles.studies.recipes import method_of, random_targets, settings_of, steps_of

# Lanes whose state and activations fill this much memory keep a GPU busy; with more of them a step takes longer by as
# much, and a study that is stopped by its time limit loses more.
WORKING_SET = 6 << 30

Report = Callable[[int], None]


@dataclasses.dataclass(frozen=True, eq=False)
class Arrived:
    """A cell at one of its epochs.

    members: probabilities `[K, N, C]` on the rows that are measured.
    predict: the same for any rows, until the next cell is asked for.
    """

    cell: Cell
    epochs: int
    members: np.ndarray
    predict: Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Diverged:
    """A cell that cannot go on."""

    cell: Cell
    reason: str


class PatientRun(Run):
    """A run whose failed lanes do not stop the others."""

    def _refuse_failures(self) -> None:
        pass

    @property
    def failed_at(self) -> np.ndarray:
        """int `[R]`, the step at which each lane failed, or -1."""
        return np.asarray(self.state.failed_at)


class Group:
    """Cells of one program: same data, network, kind of method and batch sizes.

    Args:
      rows: what the members predict at every epoch that is measured.
      cells_at_once: how many cells train side by side at most; None lets the device decide.
    """

    def __init__(
        self, cells: Sequence[Cell], model: Model, parts: Parts, rows: np.ndarray, cells_at_once: int | None = None
    ) -> None:
        use_persistent_cache()
        self.cells, self.model, self.rows = list(cells), model, rows
        first, method = cells[0], method_of(cells[0])
        unlabeled = parts.x_unlabeled if method.uses_unlabeled else None
        self.n_members, self.n_rows = first.n_members, len(parts.x)
        self.seeds = sorted({cell.seed for cell in cells})
        by_seed = {cell.seed: random_targets(cell, parts) for cell in cells}
        drawn = [targets for seed in self.seeds if (targets := by_seed[seed]) is not None]
        self.data: TrainingData = on_device(
            parts.x,
            parts.y.astype(np.int32),
            np.ones(len(parts.x), np.float32),
            unlabeled,
            jnp.asarray(np.concatenate(drawn)) if drawn else None,
        )
        n_unlabeled = 0 if unlabeled is None else len(unlabeled)
        self.program: Program = settings_of(first).program(model, len(parts.x), n_unlabeled)
        self.plan: Plan = choose_plan("auto", method, self.program, self.data, len(cells) * first.n_members)
        self.cells_at_once = cells_at_once or self._usual(unlabeled is not None)

    def _usual(self, with_unlabeled: bool) -> int:
        # On a CPU more lanes in one program gain nothing.
        if jax.default_backend() == "cpu":
            return 1
        one_cell = self.n_members * lane_bytes(self.program, self.data.x.shape[1:], with_unlabeled)
        most = self.plan.lanes_at_once // self.n_members
        return max(1, min(most, WORKING_SET // one_cell, len(self.cells)))

    def chunks(self) -> list[list[Cell]]:
        """The cells that train side by side; those of like length together, so that none waits for another."""
        ordered = sorted(self.cells, key=lambda cell: -max(cell.epochs))
        n_chunks = -(-len(ordered) // self.cells_at_once)
        # Chunks of one size where possible: another number of lanes is another compilation.
        size = -(-len(ordered) // n_chunks)
        return [ordered[i : i + size] for i in range(0, len(ordered), size)]

    def train(self, chunk: Sequence[Cell], report: Report) -> Iterator[Arrived | Diverged]:
        """Trains a chunk of cells; `report(lane steps)` tells of progress.

        Raises:
          jax.errors.JaxRuntimeError: the device ran out of memory.
        """
        lanes_at_once = self.plan.lanes_at_once
        if len(chunk) > 1 or lanes_at_once >= self.n_members:
            yield from self._together(chunk, report)
        else:
            yield from self._one_after_another(chunk[0], lanes_at_once, report)

    def _together(self, chunk: Sequence[Cell], report: Report) -> Iterator[Arrived | Diverged]:
        stops = {cell: steps_of(cell) for cell in chunk}
        active = list(chunk)
        run = self._run(self.lanes(active))
        for step in sorted({step for steps in stops.values() for step in steps}):
            _advance(run, step, report)
            failed_at = run.failed_at.reshape(len(active), self.n_members)
            for position, cell in enumerate(active):
                if step > max(stops[cell], default=0):
                    continue  # it was done before, and is carried along until the run shrinks
                if failed_at[position].max() >= 0:
                    yield _diverged(cell, failed_at[position])
                    stops[cell] = {}
                elif step in stops[cell]:
                    yield self._arrived(cell, stops[cell][step], [self._variables(run, position)])
            active, run = self._without_finished(active, run, stops)
            if not active:
                return

    def _without_finished(
        self, active: list[Cell], run: PatientRun, stops: dict[Cell, dict[int, int]]
    ) -> tuple[list[Cell], PatientRun]:
        """Drops cells that are done, once half of them are: a smaller program costs a compilation."""
        left = [position for position, cell in enumerate(active) if stops[cell] and max(stops[cell]) > run.step]
        if len(left) > len(active) // 2:
            return active, run
        if not left:
            return [], run
        remaining = [active[position] for position in left]
        lanes = np.concatenate([position * self.n_members + np.arange(self.n_members) for position in left])
        smaller = self._run(self.lanes(remaining))
        smaller.restore(jax.tree.map(lambda leaf: leaf[lanes], run.state), run.step)
        return remaining, smaller

    def _one_after_another(self, cell: Cell, lanes_at_once: int, report: Report) -> Iterator[Arrived | Diverged]:
        """Members in groups, for devices that hold (or gain from) no more; what they predict is kept until all did."""
        stops = steps_of(cell)
        found: dict[int, list[Any]] = {step: [] for step in stops}
        lanes = self.lanes([cell])
        for start in range(0, self.n_members, lanes_at_once):
            run = self._run(lanes.select(slice(start, min(start + lanes_at_once, self.n_members))))
            for step in sorted(stops):
                _advance(run, step, report)
                if run.failed_at.max() >= 0:
                    yield _diverged(cell, run.failed_at)
                    return
                found[step].append(jax.tree.map(np.asarray, self._variables(run)))
        for step, variables in found.items():
            yield self._arrived(cell, stops[step], variables)

    def lanes(self, cells: Sequence[Cell]) -> Lanes:
        """The members of all cells; a member's row of the random labels is that of its seed."""
        parts = []
        for cell in cells:
            lanes = member_lanes(
                random_key(cell.seed), range(self.n_members), self.n_rows, method_of(cell), settings_of(cell)
            )
            parts.append(lanes._replace(member=lanes.member + self.seeds.index(cell.seed) * self.n_members))
        return jax.tree.map(lambda *leaves: jnp.concatenate(leaves), *parts)

    def _run(self, lanes: Lanes) -> PatientRun:
        return PatientRun(self.program, lanes, self.data, on_host=self.plan.on_host)

    def _variables(self, run: PatientRun, position: int | None = None) -> Any:
        """Parameters and state of one cell of a run, or of all its lanes."""
        if position is None:
            return run.variables
        lanes = slice(position * self.n_members, (position + 1) * self.n_members)
        return jax.tree.map(lambda leaf: leaf[lanes], run.variables)

    def _arrived(self, cell: Cell, epochs: int, variables: Sequence[Any]) -> Arrived:
        """A cell whose members are in one or more stacks of variables."""

        def predict(x: np.ndarray) -> np.ndarray:
            at_once = 1 if self.plan.on_host else None
            stacks = []
            for params, state in variables:
                batches = predict_lanes(self.model, self.program.dtype, params, state, x, lanes_at_once=at_once)
                stacks.append(np.concatenate([probabilities for _, probabilities in batches], axis=1))
            return np.concatenate(stacks)

        return Arrived(cell, epochs, predict(self.rows), predict)


def _advance(run: PatientRun, step: int, report: Report) -> None:
    before = run.step

    def on_chunk(now: int, losses: np.ndarray) -> None:
        nonlocal before
        report((now - before) * len(losses))
        before = now

    while run.step < step:
        reached = run.step
        try:
            run.advance(step, on_chunk)
        except NonFiniteLossError:
            # The lane that failed is marked and stands still; its cell says so when it arrives.
            if run.step == reached:
                raise


def _diverged(cell: Cell, failed_at: np.ndarray) -> Diverged:
    members = np.flatnonzero(failed_at >= 0)
    which = ", ".join(map(str, members))
    return Diverged(
        cell,
        f"the loss of member {which} was not finite at step {failed_at[members].min()} (learning rate "
        f"{cell.learning_rate:g})",
    )
