"""What a procedure trains with: networks on the user's problem, stage by stage.

A stage is one training of a procedure. In a run folder it has its own checkpoints and, once finished, its networks
stay there until the run ends: a killed run reads the finished stages and goes on within the one that it was in.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from nu_ensembles.engine.assembly import Settings, label_key, member_lanes, on_device
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.engine.predict import predict_lanes
from nu_ensembles.engine.train import Evaluate, Trained, train
from nu_ensembles.labels import random_key
from nu_ensembles.methods import Members, Method, Networks, Snapshots, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.models.dropout import dropout_rate, with_dropout
from nu_ensembles.models.inspect import uses_convolution
from nu_ensembles.problem import Problem
from nu_ensembles.runs import RunFolder

# Folded into the seed for a procedure's own draws; members fold in their numbers, which never get this high.
PROCEDURE = np.uint32(0xFFFFFFFE)


def train_members(
    problem: Problem,
    model: Model,
    method: Method,
    settings: Settings,
    members: Sequence[int],
    n_steps: int,
    key: Array,
    *,
    learning_rates: Sequence[float] | None = None,
    weight_decays: Sequence[float] | None = None,
    evaluate: Evaluate | Snapshots | None = None,
    checkpoints: CheckpointFolder | None = None,
    keep_finished: bool = False,
    verbose: int = 0,
    description: str | None = None,
) -> Trained:
    """Trains the members with these numbers.

    Args:
      key: of the seed; a member's own key comes from it and the member's number.
      learning_rates, weight_decays: one for each member, instead of those of the settings.
      keep_finished: leave a checkpoint of the finished training, too.
    """
    u = problem.x_unlabeled if method.uses_unlabeled else None
    targets = None
    if u is not None:
        targets = method.unlabeled_targets(label_key(key), len(u), len(problem.classes), max(members) + 1)
    lanes = member_lanes(key, members, len(problem.x), method, settings)
    if learning_rates is not None:
        lanes = lanes._replace(learning_rate=jnp.asarray(learning_rates, settings.dtype))
    if weight_decays is not None:
        lanes = lanes._replace(weight_decay=jnp.asarray(weight_decays, settings.dtype))
    return train(
        settings.program(model, len(problem.x), 0 if u is None else len(u)),
        lanes,
        on_device(problem.x, problem.codes, problem.weight, u, targets),
        n_steps,
        plan=settings.plan,
        evaluate=evaluate,
        checkpoints=checkpoints,
        keep_finished=keep_finished,
        verbose=verbose,
        description=description or f"{method.name}, {len(members)} members",
    )


class StagedTrainer:
    """The `Trainer` of a procedure.

    Attributes:
      network_steps: steps trained so far, summed over networks: what the procedure costs.
    """

    def __init__(
        self,
        problem: Problem,
        model: Model,
        settings: Settings,
        n_members: int,
        n_steps: int,
        seed: int | Array,
        *,
        validation: tuple[np.ndarray, np.ndarray] | None = None,
        run: RunFolder | None = None,
        verbose: int = 0,
        name: str = "",
    ) -> None:
        """
        Args:
          validation: `(x, codes)`, scaled as the problem is.
          name: stands before the names of the stages, for a run folder that holds several of these.
        """
        self.problem, self.model, self.settings = problem, model, settings
        self.run, self.verbose, self.name = run, verbose, name
        self.rows = TrainingRows(problem.x, problem.codes, problem.weight, problem.x_unlabeled)
        self.validation = None
        if validation is not None:
            self.validation = TrainingRows(*validation, np.ones(len(validation[0]), np.float32))
        self.n_classes, self.n_members, self.n_steps = len(problem.classes), n_members, n_steps
        self.learning_rate, self.weight_decay = settings.learning_rate, settings.weight_decay
        self.dropout = dropout_rate(model)
        self.seed_key = random_key(seed)
        self.key = jax.random.fold_in(self.seed_key, PROCEDURE)
        self.network_steps = 0

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
        """See `nu_ensembles.methods.Trainer`."""
        stage = self.name + stage
        trained = train_members(
            self.problem if rows is None else dataclasses.replace(self.problem, **rows._asdict()),
            self.model if dropout is None else with_dropout(self.model, dropout),
            method,
            self.settings,
            numbers,
            self.n_steps,
            self.seed_key,
            learning_rates=learning_rates,
            weight_decays=weight_decays,
            evaluate=snapshots,
            checkpoints=None if self.run is None else self.run.stage(stage),
            keep_finished=True,
            verbose=self.verbose,
            description=f"{stage}, {len(numbers)} networks",
        )
        self.network_steps += len(numbers) * self.n_steps
        taken = None
        if snapshots is not None:
            taken = np.stack([trained.evaluations[at] for at in sorted(trained.evaluations)])
        return Networks(self.model, trained.params, trained.model_state, taken)

    def predict(self, networks: Networks, x: np.ndarray) -> np.ndarray:
        """Probabilities `[len(networks), N, C]`."""
        return predict_members(Members(networks), self.settings.dtype, x)


def predict_members(members: Members, dtype: str, x: np.ndarray) -> np.ndarray:
    """Probabilities `[K, N, C]` on rows that are scaled as the training rows were."""
    networks = members.networks
    # On the CPU a convolution of many networks at once is slower than one after another.
    one_by_one = jax.default_backend() == "cpu" and uses_convolution(networks.model, (1, *x.shape[1:]))
    params, model_state = jax.device_put((networks.params, networks.model_state))
    batches = predict_lanes(
        networks.model,
        dtype,
        params,
        model_state,
        x,
        lanes_at_once=1 if one_by_one else None,
        mask_keys=members.mask_keys,
    )
    return np.concatenate([probabilities for _, probabilities in batches], axis=1)
