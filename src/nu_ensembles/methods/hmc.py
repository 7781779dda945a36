"""Hamiltonian Monte Carlo on all rows at once: samples of the posterior itself, for small networks and data.

  log p(w | Z) = sum_n log p(y_n | x_n, w) - |w|² / 2 s²,     trajectories of length pi s / 2

Izmailov, Vikram, Hoffman and Wilson, *What Are Bayesian Neural Network Posteriors Really Like?*, 2021. The kernel is
that of BlackJAX (the extra `bayes`). All chains take each leapfrog step together. How far they have mixed is told by
R-hat and effective sample size of the predicted probabilities, which are what an ensemble is used for, and of weights.
"""

from __future__ import annotations

import dataclasses
import importlib.util
import math
import warnings
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from nu_ensembles.checks import check_positive, check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.methods.hmc_chains import Chains, Rows, in_words, mixing
from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.trainer import Members, Networks, Trainer, TrainingRows
from nu_ensembles.models import Model, split_variables
from nu_ensembles.models.dropout import has_mutable_state
from nu_ensembles.models.parameter_rows import parameters_from_rows

LEAST_ACCEPTANCE = 0.5


@dataclasses.dataclass(frozen=True)
class HMC(Procedure):
    """Samples of the posterior. The number of steps, the learning rate and the batch size play no part.

    Attributes:
      n_chains: side by side.
      n_samples: of each chain after its burn-in; the K members are taken evenly from all of them.
      burn_in: samples of each chain that do not count.
      step_size: of a leapfrog step.
      trajectory: length of a trajectory; None takes pi/2 times the prior's standard deviation.
      prior_variance: s², of every weight.
      most_minutes: a run that would take longer is refused.
    """

    n_chains: int = 3
    n_samples: int = 240
    burn_in: int = 50
    step_size: float = 1e-3
    trajectory: float | None = None
    prior_variance: float = 0.2
    most_minutes: float = 60.0

    name: ClassVar[str] = "hmc"
    has_length: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_whole(self.n_chains, "n_chains")
        check_whole(self.n_samples, "n_samples", least=4)
        check_whole(self.burn_in, "burn_in", least=0)
        for option in ("step_size", "prior_variance", "most_minutes"):
            check_positive(getattr(self, option), option)
        if self.trajectory is not None:
            check_positive(self.trajectory, "trajectory")

    @property
    def n_leapfrog_steps(self) -> int:
        """Of a trajectory."""
        length = math.pi / 2 * math.sqrt(self.prior_variance) if self.trajectory is None else self.trajectory
        return max(1, round(length / self.step_size))

    def network(self, given: Model, row_shape: tuple[int, ...]) -> Model:
        if has_mutable_state(given, row_shape):
            raise InputError(
                "HMC samples weights, which the mutable state of this network (batch statistics) would not fit; use a "
                "network without."
            )
        return given

    def check(self, rows: TrainingRows, validated: bool, own_optimizer: bool) -> None:
        if own_optimizer:
            raise InputError("HMC takes steps of its own; leave the optimizer out.")
        if importlib.util.find_spec("blackjax") is None:
            raise InputError("HMC runs on BlackJAX, which is not installed: pip install 'nu-ensembles[bayes]'.")

    def carry_out(self, trainer: Trainer) -> Members:
        x = trainer.inputs(trainer.rows.x)
        rows = Rows(*map(jnp.asarray, (x, trainer.rows.y, trainer.rows.weight)))
        chains = Chains(trainer.model, trainer.key, self.n_chains, rows.x[:1], self.step_size, self.prior_variance)
        self._refuse_if_too_long(chains.seconds_a_step(rows), len(rows.y))
        weights, notes = self._sampled(chains, rows, trainer.n_members)
        params, _ = split_variables(chains.variables)
        like = jax.tree.map(lambda leaf: np.asarray(leaf)[None], params)
        return Members(Networks(trainer.model, parameters_from_rows(weights, like), {}), notes=notes)

    def _sampled(self, chains: Chains, rows: Rows, n_members: int) -> tuple[np.ndarray, dict[str, Any]]:
        """Weights `[K, P]`, and what the manifest should tell of the chains."""
        import blackjax  # pyright: ignore[reportMissingImports]

        n_all = self.n_samples * self.n_chains
        # Chain after chain, sample after sample; the members are spread evenly over this order.
        wanted = [number * n_all // n_members for number in range(n_members)]
        kept: dict[int, np.ndarray] = {}
        predictions, weights, accepted = [], [], []
        state = chains.begin(chains.start, rows)
        for number in range(self.burn_in + self.n_samples):
            state, acceptance = chains.move(state, rows, jnp.array(number), jnp.array(self.n_leapfrog_steps))
            sample = number - self.burn_in
            if sample < 0:
                continue
            seen = chains.watch(state, rows)
            for list_of, each in zip((predictions, weights, accepted), (*seen, acceptance), strict=True):
                list_of.append(np.asarray(each))
            at_sample = {chain * self.n_samples + sample: chain for chain in range(self.n_chains)}
            kept |= {at: np.asarray(state.position[chain]) for at, chain in at_sample.items() if at in wanted}
        rate = float(np.mean(accepted))
        if rate < LEAST_ACCEPTANCE:
            warnings.warn(
                f"Only {100 * rate:.0f} % of HMC's proposals were accepted, so few of its samples differ; lower "
                f"step_size (now {self.step_size:g}).",
                stacklevel=2,
            )
        notes = {
            "acceptance": rate,
            "leapfrog_steps": self.n_leapfrog_steps,
            "predictions": mixing(np.stack(predictions, axis=1), blackjax.diagnostics),
            "weights": mixing(np.stack(weights, axis=1), blackjax.diagnostics),
        }
        return np.stack([kept[at] for at in wanted]), notes

    def _refuse_if_too_long(self, seconds_a_step: float, n_rows: int) -> None:
        n_steps = (self.n_samples + self.burn_in) * self.n_leapfrog_steps
        minutes = seconds_a_step * n_steps / 60
        if minutes > self.most_minutes:
            raise InputError(
                f"HMC on this network and {n_rows} rows would take about {in_words(minutes)} here ({n_steps:,} "
                f"leapfrog steps of {self.n_chains} chains), more than most_minutes={self.most_minutes:g}; ask for "
                "fewer samples or larger steps, give it fewer rows or a smaller network, or raise most_minutes."
            )
