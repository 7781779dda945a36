"""From a checked problem to trained members, by any method: one training for a loss, several for a procedure."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from jax import Array

from nu_ensembles.engine.assembly import Settings
from nu_ensembles.engine.augmentation import check_augmentation
from nu_ensembles.engine.train import Evaluate
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.idle_members import warn_of_idle_members
from nu_ensembles.labels import random_key
from nu_ensembles.methods import AnyMethod, Members, Method, Networks, Procedure, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.problem import Problem
from nu_ensembles.runs import RunFolder
from nu_ensembles.stages import StagedTrainer, train_members


def fit_problem(
    problem: Problem,
    model: Model,
    method: Method,
    settings: Settings,
    members: Sequence[int],
    n_steps: int,
    seed: int | Array,
    *,
    evaluate: Evaluate | None = None,
    run: RunFolder | None = None,
    verbose: int = 0,
) -> tuple[Any, Any]:
    """Trains the given members; returns their params and model_state, leaves `[len(members), …]`."""
    checkpoints = run.checkpoints if run else None
    trained = train_members(
        problem,
        model,
        method,
        settings,
        members,
        n_steps,
        random_key(seed),
        evaluate=evaluate,
        checkpoints=checkpoints,
        verbose=verbose,
    )
    if method.shape != "joint":
        rate = settings.learning_rate if settings.optimiser is None else None
        warn_of_idle_members(trained.losses, members, problem, rate)
    return trained.params, trained.model_state


def check_training(method: AnyMethod, problem: Problem, settings: Settings, validated: bool) -> None:
    """Refuses an augmentation that the rows are not for, and what a procedure cannot work with."""
    check_augmentation(settings.augment, problem.x.shape[1:])
    if isinstance(method, Procedure):
        rows = TrainingRows(problem.x, problem.codes, problem.weight, problem.x_unlabeled)
        method.check(rows, validated, own_optimizer=settings.optimiser is not None)


def fit_members(
    problem: Problem,
    model: Model,
    method: AnyMethod,
    settings: Settings,
    members: Sequence[int],
    n_steps: int,
    seed: int | Array,
    *,
    validation: tuple[np.ndarray, np.ndarray] | None = None,
    evaluate: Evaluate | None = None,
    run: RunFolder | None = None,
    verbose: int = 0,
    name: str = "",
) -> Members:
    """The given members of a method that is a loss, or the members that a procedure ends with.

    Args:
      validation: `(x, codes)` scaled as the problem is, for a procedure's own choices.
      evaluate: of a loss only.
      name: of this training among several in the run folder; of a procedure only.
    """
    if not isinstance(method, Procedure):
        params, model_state = fit_problem(
            problem, model, method, settings, members, n_steps, seed, evaluate=evaluate, run=run, verbose=verbose
        )
        return Members(Networks(model, params, model_state))
    trainer = StagedTrainer(
        problem,
        model,
        settings,
        len(members),
        n_steps,
        seed,
        validation=validation,
        run=run,
        verbose=verbose,
        name=name,
    )
    found = method.carry_out(trainer)
    return dataclasses.replace(found, notes={**found.notes, "network_steps": trainer.network_steps})


def ensemble_of(
    members: Members,
    problem: Problem,
    training: dict[str, Any],
    *,
    temperature: float = 1.0,
    history: list[dict[str, Any]] | None = None,
) -> Ensemble:
    """The ensemble of trained members; what their procedure notes joins what the manifest tells of the training."""
    networks = members.networks
    return Ensemble(
        model=networks.model,
        params=networks.params,
        model_state=networks.model_state,
        classes=problem.classes,
        row_shape=problem.x.shape[1:],
        standardisation=problem.standardisation,
        pixels=problem.pixels,
        temperature=temperature,
        mask_keys=members.mask_keys,
        training={**training, **({"procedure": members.notes} if members.notes else {})},
        history=[] if history is None else history,
    )
