"""What a method works with when it is carried out: the user's rows, and a trainer that trains networks on them.

A method that is one loss trains its members once. A procedure (`procedure.py`) trains several times, and does something
with the networks. How a training is done (the engine, checkpoints, progress) is the trainer's business: each is a
stage, and a finished stage is never trained again.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import jax
import numpy as np
from jax import Array

from nu_ensembles.models import Model
from nu_ensembles.models.parameter_rows import parameters_from_rows

if TYPE_CHECKING:
    from nu_ensembles.methods.protocol import Method


class TrainingRows(NamedTuple):
    """What a stage trains on: x `[N, …]`, y int32 `[N]`, weight `[N]`; x_unlabeled `[M, …]` or None."""

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    x_unlabeled: np.ndarray | None = None

    def labelled(self, rows: np.ndarray) -> TrainingRows:
        """Only these of the labelled rows; the unlabelled ones stay."""
        return self._replace(x=self.x[rows], y=self.y[rows], weight=self.weight[rows])


@dataclasses.dataclass(frozen=True, eq=False)
class Networks:
    """Trained networks in host memory; every leaf of params and model_state has a leading axis of networks.

    snapshots: `[S, networks, P]`, the parameters at S steps, for a training that took them; else None.
    """

    model: Model
    params: Any
    model_state: Any
    snapshots: np.ndarray | None = None

    def __len__(self) -> int:
        return jax.tree.leaves(self.params)[0].shape[0]

    def select(self, numbers: Sequence[int]) -> Networks:
        """These networks in this order, which may repeat some."""
        params, model_state = jax.tree.map(lambda leaf: leaf[np.asarray(numbers)], (self.params, self.model_state))
        return Networks(self.model, params, model_state)

    def with_parameters(self, rows: np.ndarray) -> Networks:
        """Networks of the same kind, without mutable state, whose parameters are these rows `[K, P]`."""
        return Networks(self.model, parameters_from_rows(rows, self.params), {})


class Snapshots(NamedTuple):
    """Copies of the parameters that a training takes on its way.

    at: after how many steps.
    start, learning_rate: from this step on the training goes on at this rate; None keeps its own.
    """

    at: Sequence[int]
    start: int = 0
    learning_rate: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Members:
    """What a method ends with: the members of the ensemble.

    mask_keys: uint32 `[K, 2]` where the K members are dropout masks of a single network; else None.
    notes: what the manifest should tell of the way there; plain values.
    """

    networks: Networks
    mask_keys: np.ndarray | None = None
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)


class Trainer(Protocol):
    """What a method gets to work with.

    rows: the user's data. validation: labelled rows for choices, scaled as the data are, if the user gave some.
    members: the numbers of the members that are asked for; n_members: how many.
    n_steps: how long each network should train.
    learning_rate, weight_decay: the user's. dropout: the network's rate, None where it is no option of it.
    key: for a procedure's own draws; the networks' keys come from the seed and their numbers.
    """

    rows: TrainingRows
    validation: TrainingRows | None
    n_classes: int
    members: Sequence[int]
    n_members: int
    n_steps: int
    learning_rate: float
    weight_decay: float
    key: Array

    @property
    def dropout(self) -> float | None: ...

    def train(
        self,
        stage: str,
        method: Method,
        numbers: Sequence[int],
        *,
        rows: TrainingRows | None = None,
        learning_rates: Sequence[float] | None = None,
        weight_decays: Sequence[float] | None = None,
        dropout: float | None = None,
        snapshots: Snapshots | None = None,
    ) -> Networks:
        """Trains a network for each of the numbers, which decide initialisation, batches and random labels.

        Args:
          stage: a name that no other training of the method has; its checkpoints go by it. The only training of a
            method has none.
          rows: other rows than all of the user's.
          learning_rates, weight_decays: one for each network, instead of the user's.
          dropout: another rate than the network's own.
        """
        ...

    def predict(self, networks: Networks, x: np.ndarray) -> np.ndarray:
        """Probabilities `[len(networks), N, C]`."""
        ...
