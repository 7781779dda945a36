"""Many lanes of a search, advanced together and thinned out as candidates drop.

On a GPU all candidates and folds train as one program. On a CPU more lanes in one program gain nothing, so each
candidate is a program of its own (the same compiled one), which makes dropping a candidate free.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from nu_ensembles.engine.plans import choose_plan
from nu_ensembles.engine.predict import fold_probabilities
from nu_ensembles.engine.program import Lanes, Program, TrainingData
from nu_ensembles.engine.run import Run


class LanePool:
    """Lanes in groups, each group a `Run`.

    Args:
      lanes: all lanes, those of a candidate next to each other.
      lanes_per_candidate: how many lanes make a candidate.
      held_out: int `[R, V]`, the rows of `data.x` that each lane predicts.
    """

    def __init__(
        self,
        program: Program,
        lanes: Lanes,
        data: TrainingData,
        held_out: np.ndarray,
        lanes_per_candidate: int,
        plan: str,
    ) -> None:
        self.program, self.data, self.held_out = program, data, held_out
        decision = choose_plan("vectorised" if plan == "sharded" else plan, lanes.method, program, data, lanes.n_lanes)
        self.on_host = decision.on_host
        at_once = decision.lanes_at_once
        if jax.default_backend() == "cpu":
            at_once = min(at_once, lanes_per_candidate)
        self.all_lanes = lanes
        self.groups: list[tuple[np.ndarray, Run]] = []
        for start in range(0, lanes.n_lanes, at_once):
            indices = np.arange(start, min(start + at_once, lanes.n_lanes))
            self.groups.append((indices, self._run(indices)))

    def _run(self, indices: np.ndarray) -> Run:
        return Run(self.program, self.all_lanes.select(indices), self.data, on_host=self.on_host)

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
        """Probabilities `[len(lanes), V, C]` of remaining lanes on their held-out rows."""
        found: dict[int, np.ndarray] = {}
        for indices, run in self.groups:
            if np.isin(indices, lanes).any():
                predicted = fold_probabilities(
                    self.program.model,
                    self.program.dtype,
                    *run.variables,
                    self.data.x,
                    self.held_out[indices],
                )
                found |= dict(zip(indices.tolist(), np.asarray(predicted), strict=True))
        return np.stack([found[int(lane)] for lane in lanes])

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
