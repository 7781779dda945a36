"""Sets of members that advance together, and are dropped one by one: the candidates of a search, the cells of a study.

Where ensembles share a program (on a GPU) all sets train as one. Elsewhere each is a program of its own, the same
compiled one, which makes dropping a set free.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from nu_ensembles.backend import Backend
from nu_ensembles.engine.assembly import Assembly
from nu_ensembles.engine.batches import padded_size
from nu_ensembles.engine.fast.shared_draws import SharedDraws
from nu_ensembles.engine.plans import choose_plan
from nu_ensembles.engine.predict import fold_probabilities
from nu_ensembles.engine.program import LaneState
from nu_ensembles.engine.run import Failures, Run


class GroupState(NamedTuple):
    """Where a group of lanes is: which lanes of the pool, int `[R]`, after how many steps, in which state."""

    lanes: np.ndarray
    step: int
    state: LaneState


class LanePool:
    """Lanes in groups, each group a `Run`.

    Args:
      assembly: all lanes, those of a set next to each other.
      lanes_a_set: how many lanes make a set.
      plan: "sharded" counts as "vectorised" here.
      failures: see `Run`.
      predicted: numbers of the rows of the data that each lane of a set predicts, for `probabilities`.
      shared: for sets that draw alike.
    """

    def __init__(
        self,
        assembly: Assembly,
        lanes_a_set: int,
        plan: str = "auto",
        failures: Failures = "raise",
        predicted: Sequence[np.ndarray] = (),
        shared: SharedDraws | None = None,
    ) -> None:
        self.program, self.all_lanes, self.data = assembly
        self.lanes_a_set = lanes_a_set
        n_lanes = self.all_lanes.n_lanes
        named = "vectorised" if plan == "sharded" else plan
        decision = choose_plan(named, self.all_lanes.method, self.program, self.data, n_lanes)
        self.on_host = decision.on_host
        self.failures: Failures = failures
        at_once = decision.lanes_at_once
        self._shared = None
        if not Backend.current().ensembles_share_a_program:
            at_once = min(at_once, lanes_a_set)
            self._shared = shared
        self.groups: list[tuple[np.ndarray, Run]] = []
        for start in range(0, n_lanes, at_once):
            indices = np.arange(start, min(start + at_once, n_lanes))
            self.groups.append((indices, self._run(indices)))
        self._predicted = np.tile(_padded_table(predicted), (n_lanes // lanes_a_set, 1))

    def _run(self, indices: np.ndarray) -> Run:
        lanes = self.all_lanes.select(indices)
        how: dict[str, Any] = {"on_host": self.on_host, "failures": self.failures, "shared": self._shared}
        return Run(self.program, lanes, self.data, **how)

    def lanes_of(self, sets: Sequence[int]) -> np.ndarray:
        """The lanes of these sets, by their numbers."""
        return np.concatenate([number * self.lanes_a_set + np.arange(self.lanes_a_set) for number in sets])

    def get_ready(self) -> None:
        """Compiles what `advance` calls, and draws where the first group starts; the others have the same programs."""
        self.groups[0][1].get_ready()

    def advance(self, to_step: int, on_chunk: Callable[[int, float], None]) -> None:
        """Trains all remaining lanes up to a step; `on_chunk(lane steps done, loss)` reports."""
        for indices, run in self.groups:
            before = run.step

            def report(step: int, losses: np.ndarray, n_lanes: int = len(indices)) -> None:
                nonlocal before
                on_chunk((step - before) * n_lanes, float(np.mean(losses)))
                before = step

            run.advance(to_step, report)

    def probabilities(self, lanes: np.ndarray) -> np.ndarray:
        """Probabilities `[len(lanes), V, C]` of remaining lanes, each on the rows that it predicts.

        V is a power of two; what goes beyond a lane's rows is of no use.
        """

        def of_group(indices: np.ndarray, run: Run) -> np.ndarray:
            model, dtype = self.program.model, self.program.dtype
            return np.asarray(fold_probabilities(model, dtype, *run.variables, self.data.x, self._predicted[indices]))

        return np.stack(self._gathered(lanes, of_group))

    def variables(self, lanes: np.ndarray) -> Any:
        """Parameters and mutable state of remaining lanes, in host memory."""
        found = self._gathered(lanes, lambda _, run: _unstacked(jax.tree.map(np.asarray, run.variables)))
        return jax.tree.map(lambda *leaves: np.stack(leaves), *found)

    def failed_at(self, lanes: np.ndarray) -> np.ndarray:
        """int `[len(lanes)]`, the step at which each of these lanes failed, or -1."""
        return np.array(self._gathered(lanes, lambda _, run: run.failed_at))

    def _gathered(self, lanes: np.ndarray, of_group: Callable[[np.ndarray, Run], Any]) -> list[Any]:
        """What `of_group(indices, run)` gives for each lane of a group, for these lanes in their order."""
        found: dict[int, Any] = {}
        for indices, run in self.groups:
            if np.isin(indices, lanes).any():
                found |= dict(zip(indices.tolist(), of_group(indices, run), strict=True))
        return [found[int(lane)] for lane in lanes]

    def state(self) -> list[GroupState]:
        """A copy of where all groups are, in host memory; asked for between two compiled calls."""
        return [GroupState(indices, run.step, run.host_state()) for indices, run in self.groups]

    def restore(self, groups: Sequence[GroupState]) -> None:
        """Goes on from groups whose state `state` gave, to the same bits."""
        self.groups = []
        for group in groups:
            run = self._run(group.lanes)
            run.restore(group.state, group.step)
            self.groups.append((group.lanes, run))

    def shapes_of(self, lanes: np.ndarray) -> LaneState:
        """The shapes of the state of a group of these lanes, without computing anything."""
        return self._run(lanes).state_shapes()

    def keep(self, lanes: np.ndarray) -> None:
        """Drops all lanes but these.

        A group shrinks when half of it is gone; less than that is not worth a compilation.
        """
        groups = []
        for indices, run in self.groups:
            kept = np.isin(indices, lanes)
            if not kept.any():
                continue
            if kept.sum() <= len(indices) // 2:
                smaller = self._run(indices[kept])
                smaller.restore(jax.tree.map(lambda leaf, k=kept: leaf[k], run.state), run.step)
                groups.append((indices[kept], smaller))
            else:
                groups.append((indices, run))
        self.groups = groups


def _padded_table(rows: Sequence[np.ndarray]) -> np.ndarray:
    """int32 `[len(rows), V]`: numbers of rows, padded with zeros to a power of two."""
    table = np.zeros((len(rows), padded_size(max(map(len, rows), default=0))), np.int32)
    for place, each in enumerate(rows):
        table[place, : len(each)] = each
    return table


def _unstacked(tree: Any) -> list[Any]:
    """A tree with a leading axis of lanes as a list of trees."""
    leaves, structure = jax.tree.flatten(tree)
    return [jax.tree.unflatten(structure, of_lane) for of_lane in zip(*leaves, strict=True)]
