"""From a job to trained members: the one way that everything trains.

A procedure is carried out with a trainer, whose every training is a stage; a method that is one loss is one stage. In
a run folder a stage has its own checkpoints, and once it is finished its networks stay there until the run ends: a
killed run reads the finished stages and goes on within the one that it was in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import NamedTuple

import jax
import numpy as np
import optax

from nu_ensembles.engine.assembly import MemberSet, assemble
from nu_ensembles.engine.features import lane_features
from nu_ensembles.engine.predict import lane_predictions
from nu_ensembles.engine.program import network_inputs
from nu_ensembles.engine.train import Evaluate, train
from nu_ensembles.methods import Members, Method, Networks, Procedure, Snapshots, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.models.dropout import dropout_rate, with_dropout
from nu_ensembles.training.idle_members import warn_of_idle_members
from nu_ensembles.training.job import TrainingJob
from nu_ensembles.training.run_folder import RunFolder

# Folded into the seed for a procedure's own draws; members fold in their numbers, which never get this high.
PROCEDURE = np.uint32(0xFFFFFFFE)

# More unlabelled rows than this hardly change a mean over them.
MOST_UNLABELED = 1000


def run_job(
    job: TrainingJob,
    *,
    evaluate: Evaluate | None = None,
    run: RunFolder | None = None,
    verbose: int = 0,
    name: str = "",
    for_good: bool = True,
) -> Members:
    """Trains a job's members.

    Args:
      evaluate: rows to predict on the way, of a method that is one training.
      run: where checkpoints go.
      name: stands before the names of the stages, for a run folder that holds several jobs.
      for_good: whether the user gets these members, and should know if some of them learnt nothing.
    """
    trainer = JobTrainer(job, evaluate, run, verbose, name)
    if isinstance(job.method, Procedure):
        found = job.method.carry_out(trainer)
        return dataclasses.replace(found, notes={**found.notes, "network_steps": trainer.network_steps})
    networks = trainer.train("", job.method, job.members)
    if for_good and not job.method.is_joint:
        rate = job.settings.learning_rate if job.settings.optimiser is None else None
        warn_of_idle_members(trainer.losses, job.members, job.problem, rate)
    return Members(networks)


class JobTrainer:
    """What a method trains with; see `nu_ensembles.methods.Trainer`.

    Attributes:
      network_steps: steps trained so far, summed over networks: what the method costs.
      losses: `[K]`, of the networks at the end of the last training; see `engine.train.Trained`.
    """

    def __init__(
        self, job: TrainingJob, evaluate: Evaluate | None, run: RunFolder | None, verbose: int, name: str
    ) -> None:
        self.job, self.evaluate, self.run, self.verbose, self.name = job, evaluate, run, verbose, name
        self.rows, self.validation = job.rows, job.validation
        self.n_classes = len(job.problem.classes)
        self.model = job.network
        self.members: Sequence[int] = job.members
        self.n_members, self.n_steps = len(job.members), job.n_steps
        self.learning_rate, self.weight_decay = job.settings.learning_rate, job.settings.weight_decay
        self.key = jax.random.fold_in(job.key, PROCEDURE)
        self.network_steps = 0
        self.losses = np.empty(0)

    @property
    def dropout(self) -> float | None:
        """The network's rate, None where it is no option of it."""
        return dropout_rate(self.job.network)

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
        """See `nu_ensembles.methods.Trainer`."""
        job, stage = self.job, self.name + stage
        given = network or job.network
        trains = given if dropout is None else with_dropout(given, dropout)
        settings = job.settings if optimiser is None else dataclasses.replace(job.settings, optimiser=optimiser)
        members = MemberSet(job.key, list(numbers), method, learning_rates=learning_rates, weight_decays=weight_decays)
        trained = train(
            assemble(trains, settings, rows or self.rows, self.n_classes, [members]),
            self.n_steps,
            plan=job.settings.plan,
            evaluate=snapshots or self.evaluate,
            checkpoints=None if self.run is None else self.run.stage(stage),
            keep_finished=bool(stage),
            verbose=self.verbose,
            description=f"{stage or method.name}, {len(numbers)} members",
        )
        self.network_steps += len(numbers) * self.n_steps
        self.losses = trained.losses
        taken = None
        if snapshots is not None:
            taken = np.stack([trained.evaluations[at] for at in sorted(trained.evaluations)])
        return Networks(given, trained.params, trained.model_state, taken)

    def inputs(self, x: np.ndarray) -> np.ndarray:
        """Rows as the networks take them."""
        return network_inputs(x, self.job.settings.dtype)

    def logits_and_features(self, networks: Networks, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Logits `[len(networks), N, C]` and what enters the last layers, `[len(networks), N, F]`."""
        variables = networks.params, networks.model_state
        return lane_features(networks.model, self.job.settings.dtype, *variables, x)

    def predict(self, networks: Networks, x: np.ndarray) -> np.ndarray:
        """Probabilities `[len(networks), N, C]`."""
        return predict_members(Members(networks), self.job.settings.dtype, x)


def predict_members(members: Members, dtype: str, x: np.ndarray) -> np.ndarray:
    """Probabilities `[K, N, C]` on rows that are scaled as the training rows were."""
    networks = members.networks
    params, model_state = jax.device_put((networks.params, networks.model_state))
    return lane_predictions(networks.model, dtype, params, model_state, x, mask_keys=members.mask_keys)


class UnlabeledPredictions(NamedTuple):
    """What members say of unlabelled rows: these `[M, …]`, as the networks take them, and probabilities `[K, M, C]`."""

    rows: np.ndarray
    probabilities: np.ndarray


def predict_unlabeled(job: TrainingJob, members: Members) -> UnlabeledPredictions | None:
    """Of a job's unlabelled rows, or of some that are drawn where there are many; None where there are none."""
    u = job.problem.x_unlabeled
    if u is None:
        return None
    rows = u[np.sort(np.random.default_rng(0).permutation(len(u))[:MOST_UNLABELED])]
    return UnlabeledPredictions(rows, predict_members(members, job.settings.dtype, rows))
