"""SWAG: a Gaussian fitted to the weights that a training visits, and networks drawn from it.

  w_k = mean + sqrt(scale / 2) * ( sd * z + D u / sqrt(S - 1) ),   z ~ N(0, I), u ~ N(0, I_S)

Maddox et al., *A Simple Baseline for Bayesian Uncertainty in Deep Learning*, 2019: mean and sd are those of S
snapshots of the last part of the training, and the columns of D are their deviations from the mean. The authors keep
the last 20 snapshots for D and take deviations from the running mean; here all S count and deviate from the final one.
Around each of K trainings: Wilson and Izmailov, *Bayesian Deep Learning and a Probabilistic Perspective of
Generalization*, 2020 (MultiSWAG).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import ClassVar, Self

import jax
import numpy as np
from jax import Array

from nu_ensembles.checks import check_positive, check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.methods.nu import Nu
from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.protocol import Method
from nu_ensembles.methods.trainer import Members, Snapshots, Trainer, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.models.dropout import has_mutable_state


@dataclasses.dataclass(frozen=True)
class Swag(Procedure):
    """K draws around one trajectory, which costs 1/K of a standard ensemble, or draws around each of K (`mixture`).

    S copies of a trajectory's weights are kept while it trains.

    Attributes:
      n_snapshots: S, spread evenly over the last part (as many as it has steps, if those are fewer).
      last: share of the training that is the last part.
      learning_rate: of the last part; None keeps the rate of the training.
      scale: of the covariance; 1 is the authors' sampling, 0 the mean of the snapshots (SWA).
      mixture: around each of K trajectories, as MultiSWAG, instead of one.
      n_samples: draws from each trajectory; None for K from a single one, and 10 from each of K.
      beta: weight of random labels on the unlabelled rows while the networks train; 0 leaves those out.
    """

    n_snapshots: int = 20
    last: float = 0.5
    learning_rate: float | None = None
    scale: float = 1.0
    mixture: bool = False
    n_samples: int | None = None
    beta: float = 0.0

    name: ClassVar[str] = "swag"

    def __post_init__(self) -> None:
        check_whole(self.n_snapshots, "n_snapshots", least=2)
        if check_positive(self.last, "last") > 1:
            raise InputError(f"last is a share of the training, above 0 and at most 1, not {self.last}.")
        if self.learning_rate is not None:
            check_positive(self.learning_rate, "learning_rate of the last part")
        check_positive(self.scale, "scale", zero_allowed=True)
        if self.n_samples is not None:
            check_whole(self.n_samples, "n_samples")
        check_positive(self.beta, "beta", zero_allowed=True)

    @property
    def base(self) -> Method:
        return Nu(self.beta).effective()

    def without_unlabeled(self) -> Self:
        return dataclasses.replace(self, beta=0.0)

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        if has_mutable_state(given, row_shape):
            raise InputError(
                "SWAG draws new weights, which the mutable state of this network (batch statistics) would not fit; use "
                "a network without."
            )
        return given

    def check(self, rows: TrainingRows, validated: bool, own_optimizer: bool) -> None:
        if own_optimizer and self.learning_rate is not None:
            raise InputError("SWAG cannot change the rate of an optimizer of your own; leave its learning_rate out.")

    def carry_out(self, trainer: Trainer) -> Members:
        snapshots = self.snapshots(trainer.n_steps)
        numbers = trainer.members if self.mixture else [0]
        trained = trainer.train("trajectory", self.base, numbers, snapshots=snapshots)
        assert trained.snapshots is not None
        n_samples = self.n_samples or (10 if self.mixture else trainer.n_members)
        keys = [jax.random.fold_in(trainer.key, number) for number in range(n_samples * len(trained))]
        parts = [
            draw_weights(trained.snapshots[:, number], keys[number :: len(trained)], self.scale)
            for number in range(len(trained))
        ]
        # Draw after draw, so that the first ones stay when more are asked for.
        drawn = np.stack(parts, axis=1).reshape(len(keys), -1)
        return Members(trained.with_parameters(drawn), notes={"snapshots_at": list(snapshots.at)})

    def snapshots(self, n_steps: int) -> Snapshots:
        """When to take snapshots: evenly over the last part, the last one at its end.

        Args:
          n_steps: of the whole training.
        """
        # Two of them should fit, since one weight vector has no spread.
        start = max(0, min(round((1 - self.last) * n_steps), n_steps - 2))
        # Rounded up: the start itself is no step of the last part.
        at = {start - (-number * (n_steps - start)) // self.n_snapshots for number in range(1, self.n_snapshots + 1)}
        return Snapshots(sorted(at), start, self.learning_rate)


@dataclasses.dataclass(frozen=True)
class MultiSwag(Swag):
    """SWAG around each of K trajectories. Training costs a standard ensemble; predicting 10 of them.

    Attributes: those of `Swag`.
    """

    mixture: bool = True

    name: ClassVar[str] = "multi_swag"


def draw_weights(visited: np.ndarray, keys: Sequence[Array], scale: float) -> np.ndarray:
    """Draws from the Gaussian of the visited weights.

    Args:
      visited: `[S, P]`.
      keys: one for each of K draws.

    Returns:
      `[K, P]`, of the same dtype.
    """
    n_visited, n_parameters = visited.shape
    mean = visited.mean(axis=0, dtype=np.float64)
    deviations = visited - mean
    spread = np.sqrt(np.square(deviations).mean(axis=0))
    drawn = np.empty((len(keys), n_parameters), visited.dtype)
    for number, key in enumerate(keys):
        z = np.asarray(jax.random.normal(jax.random.fold_in(key, 0), (n_parameters,), np.float32))
        u = np.asarray(jax.random.normal(jax.random.fold_in(key, 1), (n_visited,), np.float32))
        low_rank = u @ deviations / np.sqrt(max(n_visited - 1, 1))
        drawn[number] = mean + np.sqrt(scale / 2) * (spread * z + low_rank)
    return drawn
