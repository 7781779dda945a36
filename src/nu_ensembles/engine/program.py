"""What is trained, as the compiler sees it.

A *lane* is one network being trained: a member of an ensemble, or one (candidate, fold, member) of a search.
`Program` holds what decides the compiled code; everything that may vary without a new compilation is an array
in `Lanes` or `TrainingData`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax import Array

from nu_ensembles.engine.augmentation import Augmentation
from nu_ensembles.methods import Method
from nu_ensembles.models import Model
from nu_ensembles.rows import LazyRows


@dataclasses.dataclass(frozen=True)
class Program:
    """Static configuration: equal programs share one compilation.

    Attributes:
      batch_size, unlabeled_batch_size: rows a lane sees in a step.
      least_rows, least_unlabeled_rows: lower bounds of the row counts, powers of two (see `batches.py`).
      augment, augment_unlabeled: applied to the batch, or None.
      optimiser: the user's own, or None for AdamW.
      dtype: of parameters and inputs, "float32" or "float64".
      deterministic: the same bits on every run on a GPU, too.
    """

    model: Model
    batch_size: int = 32
    unlabeled_batch_size: int = 32
    least_rows: int = 1
    least_unlabeled_rows: int = 1
    augment: Augmentation | None = None
    augment_unlabeled: Augmentation | None = None
    optimiser: optax.GradientTransformation | None = None
    dtype: str = "float32"
    deterministic: bool = False


def network_inputs(x: Any, dtype: str) -> Any:
    """Rows as the network takes them: bytes are pixels and become x/255, as published; numbers are cast."""
    return x.astype(dtype) / 255 if x.dtype == jnp.uint8 else x.astype(dtype)


@jax.tree_util.register_static
@dataclasses.dataclass(frozen=True, eq=False)
class OutsideRows:
    """Unlabelled rows that stay where they are until steps need them.

    Attributes:
      rows: `[M, …]`, as networks take them.
      targets_at: numbers of rows `[P]` -> the members' labels on them, int32 `[K, P]`; None where there are none.
    """

    rows: LazyRows
    targets_at: Callable[[np.ndarray], np.ndarray] | None

    def __len__(self) -> int:
        return len(self.rows)


class TrainingData(NamedTuple):
    """What all lanes share. Row counts may be padded; `Lanes.n_rows` and `n_unlabeled` tell the true ones.

    x: `[N, …]`; y: int32 `[N]`; weight: `[N]`.
    x_unlabeled: `[M, …]` or None; n_unlabeled: scalar int32.
    targets: int32 `[K, M]`, the members' labels on the unlabelled rows, or None.
    previous: `[K, M, C]`, predictions of earlier members (sequential methods), n_previous: how many.
    outside: unlabelled rows that are not on the device, instead of `x_unlabeled` and `targets` (see `windows.py`).
    """

    x: Array
    y: Array
    weight: Array
    x_unlabeled: Array | None = None
    n_unlabeled: Array | None = None
    targets: Array | None = None
    previous: Array | None = None
    n_previous: Array | None = None
    outside: OutsideRows | None = None

    @property
    def has_unlabeled(self) -> bool:
        return self.x_unlabeled is not None or self.outside is not None


class Lanes(NamedTuple):
    """What differs between lanes; every leaf has a leading axis of lanes.

    key: PRNG keys `[R]`; member: int32 `[R]`, the row of `TrainingData.targets`.
    rows: int32 `[R, N]`, the labelled rows of the lane (a fold's training part), of which n_rows `[R]` are real.
    method: the method with its traced hyper-parameters stacked, each `[R]`.
    learning_rate, weight_decay: `[R]`.
    """

    key: Array
    member: Array
    rows: Array
    n_rows: Array
    method: Method
    learning_rate: Array
    weight_decay: Array

    @property
    def n_lanes(self) -> int:
        return self.member.shape[0]

    def select(self, lanes: Any) -> Lanes:
        """The lanes of a slice or an index array."""
        at = np.arange(self.n_lanes)[lanes]
        return self if np.array_equal(at, np.arange(self.n_lanes)) else _picked(self, at)


@jax.jit
def _picked(lanes: Lanes, at: Array) -> Lanes:
    return jax.tree.map(lambda leaf: leaf[at], lanes)


class LaneState(NamedTuple):
    """What training changes; every leaf has a leading axis of lanes.

    failed_at: int32 `[R]`, the step at which the lane's loss or gradient was first not finite, or -1.
    auxiliary: the method's own trainable parameters, auxiliary_state: of their optimiser; both empty for most methods.
    """

    params: Any
    model_state: Any
    optimiser_state: Any
    failed_at: Array
    auxiliary: Any = ()
    auxiliary_state: Any = ()
