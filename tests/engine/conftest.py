"""A small training, put together as `nu.fit` does it, for tests of the engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

from nu_ensembles import models
from nu_ensembles.engine.assembly import Assembly, MemberSet, assemble
from nu_ensembles.engine.program import Lanes, Program, TrainingData
from nu_ensembles.engine.settings import Settings
from nu_ensembles.engine.train import Trained, train
from nu_ensembles.methods import Method, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.problem import random_key


@dataclasses.dataclass(frozen=True)
class Assembled:
    """What `train` takes."""

    program: Program
    lanes: Lanes
    data: TrainingData
    plan: str

    def train(self, n_steps: int, **options: Any) -> Trained:
        return train(Assembly(self.program, self.lanes, self.data), n_steps, **{"plan": self.plan, **options})


@pytest.fixture(scope="session")
def assembled(blobs: tuple[np.ndarray, np.ndarray, np.ndarray]) -> Callable[..., Assembled]:
    """`assembled(method, members, model=…, seed=…, **settings)`: the blobs, ready to train on."""

    def make(
        method: Method,
        members: Sequence[int] = range(3),
        *,
        model: Model | None = None,
        seed: int = 0,
        x: np.ndarray | None = None,
        **options: Any,
    ) -> Assembled:
        settings = Settings(**{"batch_size": 8, "learning_rate": 0.01, "plan": "vectorised", **options})
        rows, labels, u = blobs
        rows = rows if x is None else x
        training = TrainingRows(rows, labels.astype(np.int32), np.ones(len(rows), np.float32), u)
        network = model or models.mlp(3, hidden=(8,))
        made = assemble(network, settings, training, 3, [MemberSet(random_key(seed), members, method)])
        return Assembled(*made, plan=settings.plan)

    return make


@pytest.fixture(scope="session")
def largest_difference() -> Callable[[Any, Any], float]:
    """The largest absolute difference between two trees of arrays; 0.0 means the same bits."""

    def compare(one: Any, other: Any) -> float:
        jax.tree.map(lambda a, b: np.testing.assert_array_equal(np.shape(a), np.shape(b)), one, other)
        differences = jax.tree.map(lambda a, b: float(np.max(np.abs(np.asarray(a) - np.asarray(b)))), one, other)
        return max(jax.tree.leaves(differences))

    return compare
