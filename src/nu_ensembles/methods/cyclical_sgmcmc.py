"""Cyclical stochastic-gradient MCMC: one network that wanders, whose weights at the end of each cycle are the members.

Every cycle starts with large steps and no noise, which find another mode, and ends with small steps and noise, which
sample it. The steps are those of `sgmcmc_step.py`: Zhang, Li, Zhang, Chen and Wilson, *Cyclical Stochastic Gradient
MCMC for Bayesian Deep Learning*, 2020; or the symplectic Euler method of Wenzel et al., *How Good is the Bayes
Posterior in Deep Neural Networks Really?*, 2020, with noise throughout. The posterior is cold, of temperature 1/n.
"""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar, cast, get_args

import jax
import jax.numpy as jnp
from jax import Array

from nu_ensembles.checks import check_name, check_positive, check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.methods.forward import Forward, ParameterForward
from nu_ensembles.methods.losses import cross_entropy
from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.protocol import BaseMethod, Batch, Shape, method
from nu_ensembles.methods.sgmcmc_step import Integrator, Sampler, sampler_step
from nu_ensembles.methods.trainer import Members, Snapshots, Trainer, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.models.dropout import has_mutable_state

# Of Wenzel's sampler, which has noise throughout, weights are taken from the last part of a cycle like this.
LAST_PART = 0.1


@method("temperature")
class NoisyLoss(BaseMethod):
    """The mean loss, whose gradient has the noise of a sampler.

    Attributes:
      sampler: which says how much at which step.
      temperature: of the posterior.
    """

    sampler: Sampler
    temperature: float

    name: ClassVar[str] = "noisy_loss"
    shape: ClassVar[Shape] = "independent"
    uses_unlabeled: ClassVar[bool] = False

    def loss(self, forward: Forward, batch: Batch) -> Array:
        assert batch.key is not None
        assert batch.step is not None
        assert batch.n_rows is not None
        (logits,) = forward(batch.x)
        scale = self.sampler.noise(batch.step, self.temperature, batch.n_rows)
        weights = jax.tree.leaves(cast(ParameterForward, forward).params)
        keys = jax.random.split(batch.key, len(weights))
        noise = [jax.random.normal(key, leaf.shape, leaf.dtype) for key, leaf in zip(keys, weights, strict=True)]
        # A linear term of value zero: its derivative by the weights is the noise.
        moved = [jnp.sum(z * (leaf - jax.lax.stop_gradient(leaf))) for z, leaf in zip(noise, weights, strict=True)]
        return cross_entropy(logits, batch.y, batch.weight) + scale * sum(moved)


@dataclasses.dataclass(frozen=True)
class CyclicalSGMCMC(Procedure):
    """K samples of one network on its way. Training costs 1/K of a standard ensemble, and K copies of the weights.

    Attributes:
      cycles: how many the training has.
      integrator: "sgld", or "symplectic_euler".
      learning_rate: the largest of each cycle, of the mean loss without AdamW; None takes 0.5, or 0.1 for the
        symplectic Euler method.
      friction: 1 minus the momentum decay; None takes 1 (Langevin dynamics), or 0.02 for the symplectic Euler method.
      exploration: share of each cycle without noise; None takes 0.9, or 0 for the symplectic Euler method.
      temperature: None takes 1/n, n labelled rows; 1 is the posterior.
      weight_decay: of the mean loss: n times it is the precision of the prior.
    """

    cycles: int = 4
    integrator: Integrator = "sgld"
    learning_rate: float | None = None
    friction: float | None = None
    exploration: float | None = None
    temperature: float | None = None
    weight_decay: float = 5e-4

    name: ClassVar[str] = "cyclical_sgmcmc"

    def __post_init__(self) -> None:
        check_whole(self.cycles, "cycles")
        check_name(self.integrator, "integrator", get_args(Integrator))
        if self.learning_rate is not None:
            check_positive(self.learning_rate, "learning_rate")
        if self.friction is not None and check_positive(self.friction, "friction") > 1:
            raise InputError(f"friction is 1 minus the momentum decay, above 0 and at most 1, not {self.friction}.")
        if self.exploration is not None:
            check_positive(self.exploration, "exploration", zero_allowed=True, below=1)
        if self.temperature is not None:
            check_positive(self.temperature, "temperature", zero_allowed=True)
        check_positive(self.weight_decay, "weight_decay", zero_allowed=True)

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        if has_mutable_state(given, row_shape):
            raise InputError(
                "Cyclical SG-MCMC keeps earlier weights, which the mutable state of this network (batch statistics) "
                "would not fit; use a network without."
            )
        return given

    def check(self, rows: TrainingRows, validated: bool, own_optimizer: bool) -> None:
        if own_optimizer:
            raise InputError(f"The steps of {self.name!r} are its own; leave the optimizer out.")

    def sampler(self, n_steps: int) -> Sampler:
        """The sampler of a training of so many steps.

        Args:
          n_steps: of the whole training.
        """
        symplectic = self.integrator == "symplectic_euler"
        usual = (0.1, 0.02, 0.0) if symplectic else (0.5, 1.0, 0.9)
        given = self.learning_rate, self.friction, self.exploration
        rate, friction, exploration = (of if own is None else own for own, of in zip(given, usual, strict=True))
        cycle = -(-n_steps // self.cycles)
        return Sampler(self.integrator, rate, friction, self.weight_decay, cycle, exploration)

    def samples_at(self, n_steps: int, n_members: int) -> list[int]:
        """After which steps weights are taken: evenly in the last part of every cycle, the last one at its end.

        Where the first cycles have less of them than the last, or a short training not enough steps, that is so.

        Args:
          n_steps: of the whole training.
          n_members: how many are wanted.
        """
        sampler = self.sampler(n_steps)
        assert sampler.cycle is not None
        ends = [min(end, n_steps) for end in range(sampler.cycle, n_steps + sampler.cycle, sampler.cycle)]
        taken: list[int] = []
        for number, end in enumerate(ends):
            share = (1 - sampler.exploration) if sampler.exploration else LAST_PART
            part = max(1, round(share * sampler.cycle))
            # The later cycles have one more where the members do not divide evenly.
            wanted = (n_members + number) // len(ends)
            taken += {max(1, end - (each * part) // max(wanted, 1)) for each in range(wanted)}
        return sorted(set(taken))

    def carry_out(self, trainer: Trainer) -> Members:
        n_steps, n_rows = trainer.n_steps, len(trainer.rows.x)
        sampler, at = self.sampler(n_steps), self.samples_at(n_steps, trainer.n_members)
        temperature = 1 / n_rows if self.temperature is None else self.temperature
        wandering = trainer.train(
            "chain",
            NoisyLoss(sampler, temperature),
            [0],
            snapshots=Snapshots(at),
            optimiser=sampler_step(sampler),
        )
        assert wandering.snapshots is not None
        taken = wandering.snapshots[:, 0]
        # A training that is too short for so many members has some of them twice.
        chosen = taken[[number * len(taken) // trainer.n_members for number in range(trainer.n_members)]]
        notes: dict[str, Any] = {"samples_at": at, "temperature": temperature, "steps_a_cycle": sampler.cycle}
        return Members(wandering.with_parameters(chosen), notes=notes)


@dataclasses.dataclass(frozen=True)
class ColdPosterior(CyclicalSGMCMC):
    """Cyclical SG-MCMC by the symplectic Euler method, with noise throughout.

    Attributes: those of `CyclicalSGMCMC`.
    """

    integrator: Integrator = "symplectic_euler"

    name: ClassVar[str] = "cold_posterior"
