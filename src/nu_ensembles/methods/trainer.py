"""What a procedure works with when it is carried out: the user's rows, and a trainer that trains networks on them.

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
import optax
from jax import Array

from nu_ensembles.models import Model
from nu_ensembles.models.parameter_rows import parameters_from_rows

if TYPE_CHECKING:
    from nu_ensembles.methods.protocol import Method


class TrainingRows(NamedTuple):
    """What a stage trains on.

    Attributes:
      x: `[N, …]`, labelled rows.
      y: int32 `[N]`, their class numbers.
      weight: `[N]`, mean one.
      x_unlabeled: `[M, …]`, or None; `LazyRows`, which memory does not hold, only for a method that is one loss.
    """

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    x_unlabeled: Any = None

    def labelled(self, rows: np.ndarray) -> TrainingRows:
        """Only these of the labelled rows; the unlabelled ones stay.

        Args:
          rows: their numbers, int `[n]`.
        """
        return self._replace(x=self.x[rows], y=self.y[rows], weight=self.weight[rows])


@dataclasses.dataclass(frozen=True, eq=False)
class Networks:
    """Trained networks in host memory.

    Attributes:
      model: the network, written for one member.
      params: what was trained; every leaf has a leading axis of networks.
      model_state: the networks' other variables, with the same axis.
      snapshots: `[S, networks, P]`, the parameters at S steps, for a training that took them; else None.
    """

    model: Model
    params: Any
    model_state: Any
    snapshots: np.ndarray | None = None

    def __len__(self) -> int:
        return jax.tree.leaves(self.params)[0].shape[0]

    def select(self, numbers: Sequence[int]) -> Networks:
        """These networks in this order, which may repeat some.

        Args:
          numbers: of the networks, from 0 on.
        """
        params, model_state = jax.tree.map(lambda leaf: leaf[np.asarray(numbers)], (self.params, self.model_state))
        return Networks(self.model, params, model_state)

    def with_parameters(self, rows: np.ndarray) -> Networks:
        """Networks of the same kind, without mutable state, that have these parameters.

        Args:
          rows: `[K, P]`, the parameters of each as one row.
        """
        return Networks(self.model, parameters_from_rows(rows, self.params), {})


class Snapshots(NamedTuple):
    """Copies of the parameters that a training takes on its way.

    Attributes:
      at: after how many steps.
      start: the step from which on the training goes on at another rate.
      learning_rate: that rate; None keeps the training's own.
    """

    at: Sequence[int]
    start: int = 0
    learning_rate: float | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Members:
    """What a method ends with: the members of the ensemble.

    Attributes:
      networks: the members, or the one network behind them.
      mask_keys: uint32 `[K, 2]` where the K members are dropout masks of a single network; else None.
      notes: what the manifest should tell of the way there; plain values.
    """

    networks: Networks
    mask_keys: np.ndarray | None = None
    notes: dict[str, Any] = dataclasses.field(default_factory=dict)


class Trainer(Protocol):
    """What a method gets to work with.

    Attributes:
      rows: the user's data.
      validation: labelled rows for choices, scaled as the data are, or None if the user gave none.
      n_classes: how many classes (c).
      model: the network that each is.
      members: the numbers of the members that are asked for.
      n_members: how many these are.
      n_steps: how long each network should train.
      learning_rate: the user's.
      weight_decay: the user's.
      dropout: the network's rate, None where it is no option of it.
      key: for a procedure's own draws; the networks' keys come from the seed and their numbers.
    """

    rows: TrainingRows
    validation: TrainingRows | None
    n_classes: int
    model: Model
    members: Sequence[int]
    n_members: int
    n_steps: int
    learning_rate: float
    weight_decay: float
    key: Array

    @property
    def dropout(self) -> float | None:
        """The rate of the network's dropout, None where it is no option of it."""
        ...

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
        network: Model | None = None,
        snapshots: Snapshots | None = None,
        optimiser: optax.GradientTransformation | None = None,
    ) -> Networks:
        """Trains a network for each of the numbers, which decide initialisation, batches and random labels.

        Args:
          stage: a name that no other training of the method has; its checkpoints go by it. The only training of a
            method has none.
          method: what each network minimises.
          numbers: of the networks.
          rows: other rows than all of the user's.
          learning_rates: one for each network, instead of the user's.
          weight_decays: one for each network, instead of the user's.
          dropout: another rate than the network's own.
          network: another than the user's, made from it; those that are trained are of this kind.
          snapshots: when to copy the parameters on the way; None for never.
          optimiser: another than the user's, with its own rate and decay. The same object shares compiled programs;
            what distinguishes it should be a hyper-parameter of the method, too, by which checkpoints are told apart.
        """
        ...

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Rows as the networks take them: bytes are pixels and become x/255, numbers are of the training's dtype.

        Args:
          x: `[N, …]`, scaled as the user's data are.
        """
        ...

    def logits_and_features(self, networks: Networks, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits `[len(networks), N, C]` and what enters the last layers, `[len(networks), N, F]`, in evaluation mode.

        Args:
          networks: which `train` returned.
          x: `[N, …]`, scaled as the user's data are.
        """
        ...

    def predict(self, networks: Networks, x: np.ndarray) -> np.ndarray:
        """Probabilities `[len(networks), N, C]`.

        Args:
          networks: which `train` returned.
          x: `[N, …]`, scaled as the user's data are.
        """
        ...
