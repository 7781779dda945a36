"""Trains lanes to the end: group after group as the plan says, with evaluations, checkpoints and progress.

At certain steps a training stops to be looked at: probabilities on other rows (`Evaluate`), or copies of the
parameters (`Snapshots`). What was seen is part of a checkpoint, so a resumed training has seen the same.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from nu_ensembles.engine import processes
from nu_ensembles.engine.assembly import Assembly
from nu_ensembles.engine.checkpoints import CheckpointFolder, fingerprint
from nu_ensembles.engine.plans import Plan, choose_plan
from nu_ensembles.engine.predict import lane_predictions, lane_probabilities
from nu_ensembles.engine.program import Lanes, Program, TrainingData
from nu_ensembles.engine.run import Run
from nu_ensembles.errors import NonFiniteLossError
from nu_ensembles.lifecycle.interrupts import held_interrupts
from nu_ensembles.methods import Snapshots
from nu_ensembles.models.parameter_rows import parameter_rows
from nu_ensembles.progress import step_bar

# A compiled call may be a single step, whose batch says little about a member.
LOOK_BACK = 64


@dataclasses.dataclass(frozen=True)
class Trained:
    """Lanes at the end of their training, in host memory.

    params, model_state: trees whose leaves have a leading axis of lanes.
    evaluations: step -> what was seen there: probabilities `[R, N, C]` on the evaluation rows, or (`Snapshots`) the
      parameters `[R, P]`.
    losses: `[R]`, means over about the last `LOOK_BACK` steps or more; nan for lanes that a checkpoint held finished.
    """

    params: Any
    model_state: Any
    evaluations: dict[int, np.ndarray]
    plan: Plan
    losses: np.ndarray


@dataclasses.dataclass(frozen=True)
class Evaluate:
    """Rows to predict at certain steps; `then(step, probabilities [R, N, C])` is called when all lanes are there."""

    x: np.ndarray
    at: Sequence[int]
    then: Callable[[int, np.ndarray], None] | None = None


def train(
    assembly: Assembly,
    n_steps: int,
    *,
    plan: str = "auto",
    evaluate: Evaluate | Snapshots | None = None,
    checkpoints: CheckpointFolder | None = None,
    keep_finished: bool = False,
    verbose: int = 0,
    description: str = "training",
) -> Trained:
    """Trains every lane for `n_steps` steps.

    Args:
      keep_finished: leave a checkpoint of the finished lanes, from which the same call returns without training.

    Raises:
      NonFiniteLossError: a lane failed; a checkpoint with the last good state is written if there is a folder.
      KeyboardInterrupt, Terminated: after Ctrl-C or SIGTERM and a checkpoint, if there is a folder.
    """

    def here(part: Assembly, evaluate: Any, kept: CheckpointFolder | None, keep_finished: bool) -> Trained:
        return _train_here(part, n_steps, plan, evaluate, kept, keep_finished, verbose, description)

    n_lanes = assembly.lanes.n_lanes
    if not processes.spread_over_processes(plan, assembly.lanes.method, n_lanes, checkpoints):
        return here(assembly, evaluate, checkpoints, keep_finished)
    # What is evaluated is told of at the end, when all lanes of all processes have been everywhere.
    silent = dataclasses.replace(evaluate, then=None) if isinstance(evaluate, Evaluate) else evaluate

    def of_shard(numbers: np.ndarray, kept: CheckpointFolder | None) -> Trained:
        return here(assembly._replace(lanes=assembly.lanes.select(numbers)), silent, kept, True)

    trained = processes.in_shards(of_shard, n_lanes, checkpoints)
    if isinstance(evaluate, Evaluate) and evaluate.then is not None:
        for at in sorted(trained.evaluations):
            evaluate.then(at, trained.evaluations[at])
    return trained


def _train_here(
    assembly: Assembly,
    n_steps: int,
    plan: str,
    evaluate: Evaluate | Snapshots | None,
    checkpoints: CheckpointFolder | None,
    keep_finished: bool,
    verbose: int,
    description: str,
) -> Trained:
    """Trains every lane on the devices of this process."""
    program, lanes, data = assembly
    decision = choose_plan(plan, lanes.method, program, data, lanes.n_lanes)
    while True:
        try:
            training = _Training(assembly, n_steps, decision, evaluate, checkpoints)
            return training.train(verbose, description, keep_finished)
        except jax.errors.JaxRuntimeError as error:
            smaller = decision.lanes_at_once // 2
            if "RESOURCE_EXHAUSTED" not in str(error) or lanes.method.is_joint or smaller < 1:
                raise
            warnings.warn(
                f"The device ran out of memory with {decision.lanes_at_once} members at once; trying {smaller}.",
                stacklevel=2,
            )
            decision = dataclasses.replace(decision, lanes_at_once=smaller)


class _Training:
    """One call of `train` under one plan."""

    def __init__(
        self,
        assembly: Assembly,
        n_steps: int,
        plan: Plan,
        evaluate: Evaluate | Snapshots | None,
        checkpoints: CheckpointFolder | None,
    ) -> None:
        self.program, self.lanes, self.n_steps = assembly.program, assembly.lanes, n_steps
        self.data = _with_room_for_predictions(*assembly)
        self.plan, self.evaluate, self.checkpoints = plan, evaluate, checkpoints
        self.finished: list[Any] = []  # a (params, model_state) in host memory for every group that is done
        self.seen: dict[int, list[np.ndarray]] = {}  # step -> a [group, …] for every group that was there
        self.reported: set[int] = set()
        self.losses = np.full(self.lanes.n_lanes, np.nan)
        self.fingerprint = ""

    def train(self, verbose: int, description: str, keep_finished: bool) -> Trained:
        groups = [
            np.arange(start, min(start + self.plan.lanes_at_once, self.lanes.n_lanes))
            for start in range(0, self.lanes.n_lanes, self.plan.lanes_at_once)
        ]
        checkpoint = None
        if self.checkpoints is not None:
            evaluated = None
            if self.evaluate is not None:
                rows = self.evaluate.x if isinstance(self.evaluate, Evaluate) else tuple(self.evaluate)[1:]
                evaluated = rows, sorted(self.evaluate.at)
            self.fingerprint = fingerprint(self.program, self.lanes, self.data, self.n_steps, self.plan, evaluated)
            checkpoint = self.checkpoints.load(self.fingerprint, self.n_steps, len(groups))
        total = len(groups) * self.n_steps
        done = 0
        if checkpoint is not None:
            self.seen = checkpoint.evaluations()
            self._report_again()
            done = checkpoint.n_finished * self.n_steps + checkpoint.step
        already = done
        with (
            step_bar(description, total, done, verbose) as show,
            nullcontext() if self.checkpoints is None else held_interrupts() as interrupted,
        ):
            for number, group in enumerate(groups):
                run = self._start(group)
                if checkpoint is not None and number < checkpoint.n_finished:
                    template = _first_lanes(run.variables, len(group))
                    self.finished.append(checkpoint.finished(number, template))
                    self._remember_predictions(group)
                    continue
                if checkpoint is not None and number == checkpoint.n_finished and checkpoint.has_current:
                    run.restore(checkpoint.current(run.state), checkpoint.step)

                def on_chunk(step: int, losses: np.ndarray, run: Run = run, group: np.ndarray = group) -> None:
                    nonlocal done
                    now = len(self.finished) * self.n_steps + step
                    self._remember_losses(group, losses[: len(group)], now - done)
                    show(now - done, float(np.mean(losses)))
                    done = now
                    if self.checkpoints is None or interrupted is None:
                        return
                    if interrupted.is_set() or self.checkpoints.due():
                        self._save(run)
                    if interrupted.is_set():
                        interrupted.obey("Stopped; the run can be resumed from its checkpoint.")

                self._train_group(run, group, on_chunk)
                self.finished.append(_first_lanes(run.variables, len(group)))
                self._remember_predictions(group)
            if self.checkpoints is not None and keep_finished and done > already:
                self.checkpoints.save(self.fingerprint, self.finished, None, 0, self.seen)
        params, model_state = jax.tree.map(lambda *parts: np.concatenate(parts), *self.finished)
        seen = {at: np.concatenate(parts) for at, parts in self.seen.items()}
        return Trained(params, model_state, seen, self.plan, self.losses)

    def _start(self, group: np.ndarray) -> Run:
        # Every device needs the same number of lanes; the last lane fills up and is trimmed afterwards.
        n_padded = -(-len(group) // self.plan.n_devices) * self.plan.n_devices
        padded = np.concatenate([group, np.repeat(group[-1:], n_padded - len(group))])
        mesh = self.plan.mesh()
        return Run(self.program, self.lanes.select(padded), self.data, on_host=self.plan.on_host, mesh=mesh)

    def _train_group(self, run: Run, group: np.ndarray, on_chunk: Callable[[int, np.ndarray], None]) -> None:
        stops = sorted({min(int(at), self.n_steps) for at in self.evaluate.at}) if self.evaluate else []
        try:
            for at in stops:
                if at < run.step:
                    continue
                self._advance(run, at, on_chunk)
                self._look(run, group, at)
            self._advance(run, self.n_steps, on_chunk)
        except NonFiniteLossError:
            if self.checkpoints is not None:
                self._save(run)
            raise

    def _advance(self, run: Run, to_step: int, on_chunk: Callable[[int, np.ndarray], None]) -> None:
        """Trains up to a step; from the start of the snapshots on at their learning rate, if they have one."""
        late = self.evaluate if isinstance(self.evaluate, Snapshots) else None
        if late is not None and late.learning_rate is not None and to_step > late.start:
            run.advance(late.start, on_chunk)
            run.lanes = run.lanes._replace(learning_rate=jnp.full_like(run.lanes.learning_rate, late.learning_rate))
        run.advance(to_step, on_chunk)

    def _look(self, run: Run, group: np.ndarray, at: int) -> None:
        assert self.evaluate is not None
        parts = self.seen.setdefault(at, [])
        if isinstance(self.evaluate, Snapshots):
            parts.append(parameter_rows(run.variables[0], len(group)))
            return
        model, dtype = self.program.model, self.program.dtype
        parts.append(lane_predictions(model, dtype, *run.variables, self.evaluate.x)[: len(group)])
        self._report(at)

    def _report(self, at: int) -> None:
        """Tells what was seen at a step, when all lanes have been there."""
        parts = self.seen[at]
        n_lanes_there = sum(len(part) for part in parts)
        then = self.evaluate.then if isinstance(self.evaluate, Evaluate) else None
        if then is not None and n_lanes_there == self.lanes.n_lanes and at not in self.reported:
            self.reported.add(at)
            then(at, np.concatenate(parts))

    def _report_again(self) -> None:
        """Tells what the checkpoint has seen: whoever listens now was not there, or may have lost it."""
        for at in sorted(self.seen):
            self._report(at)

    def _remember_losses(self, group: np.ndarray, losses: np.ndarray, n_steps: int) -> None:
        """Lets mean losses of so many steps take the place of earlier ones, by as much as they weigh."""
        earlier, share = self.losses[group], min(1.0, n_steps / LOOK_BACK)
        self.losses[group] = np.where(np.isnan(earlier), losses, share * losses + (1 - share) * earlier)

    def _remember_predictions(self, group: np.ndarray) -> None:
        """For sequential methods: the finished member's probabilities on the unlabelled rows, computed once."""
        if not self.lanes.method.is_sequential:
            return
        assert self.data.x_unlabeled is not None
        params, model_state = jax.device_put(self.finished[-1])
        rows = np.asarray(self.data.x_unlabeled)
        predictions = lane_predictions(self.program.model, self.program.dtype, params, model_state, rows)[0]
        assert self.data.previous is not None
        previous = self.data.previous.at[group[0]].set(predictions)
        self.data = self.data._replace(previous=previous, n_previous=jnp.int32(group[0] + 1))

    def _save(self, run: Run) -> None:
        assert self.checkpoints is not None
        self.checkpoints.save(self.fingerprint, self.finished, run.host_state(), run.step, self.seen)


def _first_lanes(variables: Any, n_lanes: int) -> Any:
    """The networks of a group in host memory, without the lanes that filled up the devices."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[:n_lanes], variables)


def _with_room_for_predictions(program: Program, lanes: Lanes, data: TrainingData) -> TrainingData:
    """Sequential methods: room for all members' predictions from the start, so that nothing recompiles per member."""
    if not lanes.method.is_sequential:
        return data
    assert data.x_unlabeled is not None
    params, model_state = Run(program, lanes.select(np.arange(1)), data).variables
    one_row = jax.eval_shape(
        lambda x: lane_probabilities(program.model, program.dtype, params, model_state, x), data.x_unlabeled[:1]
    )
    shape = (lanes.n_lanes, data.x_unlabeled.shape[0], one_row.shape[-1])
    return data._replace(previous=jnp.zeros(shape, one_row.dtype), n_previous=jnp.int32(0))
