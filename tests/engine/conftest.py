"""A small training, put together as `nu.fit` does it, for tests of the engine."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
import pytest

from nu_ensembles import models
from nu_ensembles.engine.assembly import Settings, label_key, member_lanes, on_device
from nu_ensembles.engine.program import Lanes, Program, TrainingData
from nu_ensembles.engine.train import Trained, train
from nu_ensembles.methods import Method
from nu_ensembles.methods.labels import random_key
from nu_ensembles.models import Model


@dataclasses.dataclass(frozen=True)
class Assembled:
    """What `train` takes."""

    program: Program
    lanes: Lanes
    data: TrainingData
    plan: str

    def train(self, n_steps: int, **options: Any) -> Trained:
        return train(self.program, self.lanes, self.data, n_steps, **{"plan": self.plan, **options})


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
        key = random_key(seed)
        targets = method.unlabeled_targets(label_key(key), len(u), 3, max(members) + 1)
        data = on_device(
            rows,
            labels.astype(np.int32),
            np.ones(len(rows), np.float32),
            u if method.uses_unlabeled else None,
            targets,
        )
        return Assembled(
            settings.program(model or models.mlp(3, hidden=(8,)), len(rows), len(u)),
            member_lanes(key, members, len(rows), method, settings),
            data,
            settings.plan,
        )

    return make


@pytest.fixture(scope="session")
def largest_difference() -> Callable[[Any, Any], float]:
    """The largest absolute difference between two trees of arrays; 0.0 means the same bits."""

    def compare(one: Any, other: Any) -> float:
        jax.tree.map(lambda a, b: np.testing.assert_array_equal(np.shape(a), np.shape(b)), one, other)
        differences = jax.tree.map(lambda a, b: float(np.max(np.abs(np.asarray(a) - np.asarray(b)))), one, other)
        return max(jax.tree.leaves(differences))

    return compare
