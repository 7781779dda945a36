"""A training on random rows, put together as `nu.fit` does it, for measuring what its steps take."""

from __future__ import annotations

import time

import jax
import jax.numpy as jnp
import numpy as np

from nu_ensembles.backend import Backend
from nu_ensembles.engine.assembly import Assembly, MemberSet, assemble
from nu_ensembles.engine.fast.rounds import STEPS_A_ROUND
from nu_ensembles.engine.plans import choose_plan
from nu_ensembles.engine.run import Run
from nu_ensembles.engine.settings import Settings
from nu_ensembles.methods import Method, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.problem import random_key


class Rehearsal:
    """Members of a network on random data, compiled and one step into their training.

    Under a plan that trains fewer members at once than there are, one group stands for all.

    Args:
      row_shape: of a row, `[H, W, C]` for images (bytes) or `[F]` for tables (float32).
      n_rows, n_unlabeled: labelled and unlabelled rows there are.

    Attributes:
      plan: how the members run.
      n_groups: groups that train one after another.
      compile_s: seconds until the first step was done, compilation included.
    """

    def __init__(
        self,
        model: Model,
        row_shape: tuple[int, ...],
        method: Method,
        n_members: int,
        settings: Settings | None = None,
        *,
        n_classes: int = 10,
        n_rows: int = 1000,
        n_unlabeled: int = 5000,
    ) -> None:
        settings = settings or Settings()
        shapes = row_shape, method, n_members, settings, n_classes, n_rows, n_unlabeled
        program, lanes, data = random_assembly(model, *shapes)
        self.plan = choose_plan(settings.plan, method, program, data, n_members)
        self.n_groups = -(-n_members // self.plan.lanes_at_once)
        # Every device needs the same number of lanes.
        n_lanes = -(-self.plan.lanes_at_once // self.plan.n_devices) * self.plan.n_devices
        start = time.perf_counter()
        group = lanes.select(np.minimum(np.arange(n_lanes), n_members - 1))
        self.run = Run(program, group, data, on_host=self.plan.on_host, mesh=self.plan.mesh())
        self.advance(1)
        self.compile_s = time.perf_counter() - start

    @property
    def steps_at_once(self) -> int:
        """Steps of a round; one where steps do not go in rounds."""
        return STEPS_A_ROUND if Backend.current().steps_in_rounds else 1

    def advance(self, n_steps: int) -> float:
        """Trains on, by whole rounds on a GPU; the milliseconds that a step of all members took.

        A part of a round takes as long as a whole one, so timing it would make steps look slower than they are.
        """
        n_steps = -(-n_steps // self.steps_at_once) * self.steps_at_once
        start = time.perf_counter()
        self.run.advance(self.run.step + n_steps)
        jax.block_until_ready(self.run.state)
        return (time.perf_counter() - start) / n_steps * 1e3 * self.n_groups


def random_assembly(
    model: Model,
    row_shape: tuple[int, ...],
    method: Method,
    n_members: int,
    settings: Settings,
    n_classes: int = 10,
    n_rows: int = 1000,
    n_unlabeled: int = 5000,
) -> Assembly:
    """Members on random rows and labels, with random labels and predictions of earlier members where needed."""
    rng = np.random.default_rng(0)

    def rows(n: int) -> np.ndarray:
        if len(row_shape) > 1:
            return rng.integers(0, 256, (n, *row_shape), np.uint8)
        return rng.standard_normal((n, *row_shape), np.float32)

    x, y = rows(n_rows), rng.integers(0, n_classes, n_rows).astype(np.int32)
    u = rows(n_unlabeled) if method.uses_unlabeled else None
    of_rows = TrainingRows(x, y, np.ones(n_rows, np.float32), u)
    made = assemble(model, settings, of_rows, n_classes, [MemberSet(random_key(0), range(n_members), method)])
    if not method.is_sequential:
        return made
    # As the last member sees it.
    assert made.data.x_unlabeled is not None
    previous = jnp.full((n_members, made.data.x_unlabeled.shape[0], n_classes), 1 / n_classes)
    return made._replace(data=made.data._replace(previous=previous, n_previous=jnp.int32(n_members - 1)))
