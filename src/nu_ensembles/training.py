"""`nu.fit`: from arrays to a trained ensemble, for any network and any method.

The scikit-learn classifiers add input scaling by default and the choice of beta; this is the level below. What runs
underneath, stage by stage where a method has several, is in `trainer.py`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from jax import Array

from nu_ensembles import methods
from nu_ensembles.engine.assembly import Settings
from nu_ensembles.engine.augmentation import Augmentation, as_augmentation
from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.engine.plans import check_plan
from nu_ensembles.engine.train import Evaluate
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.errors import InputError
from nu_ensembles.inputs import check_positive, check_whole
from nu_ensembles.labels import random_key
from nu_ensembles.methods import AnyMethod, Nu, Procedure, Standard
from nu_ensembles.metrics import evaluate as score
from nu_ensembles.models import Model
from nu_ensembles.problem import Problem, build_network, effective_method, prepare, validation_rows
from nu_ensembles.runs import RunFolder
from nu_ensembles.trainer import check_training, ensemble_of, fit_members, fit_problem

__all__ = ["fit", "fit_problem", "n_steps_of"]


def n_steps_of(epochs: float, n_rows: int, batch_size: int) -> int:
    """Optimiser steps in so many passes over the labelled rows; the last partial batch of a pass is not counted."""
    return max(1, round(epochs * max(1, n_rows // batch_size)))


def fit(
    model: str | Model,
    x: Any,
    y: Any,
    x_unlabeled: Any = None,
    method: AnyMethod | str | None = None,
    n_members: int = 10,
    epochs: float | None = None,
    seed: int | Array = 0,
    *,
    steps: int | None = None,
    sample_weight: Any = None,
    classes: Sequence[Any] | np.ndarray | None = None,
    standardize: bool = False,
    batch_size: int = 32,
    unlabeled_batch_size: int | None = None,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    augment: str | Augmentation | None = None,
    augment_unlabeled: bool = False,
    optimizer: optax.GradientTransformation | None = None,
    dtype: str = "float32",
    plan: str = "auto",
    deterministic: bool = False,
    validation: tuple[Any, Any] | None = None,
    evaluate_every: float = 10,
    run_folder: str | Path | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 30.0,
    add_to: Ensemble | None = None,
    verbose: int = 0,
) -> Ensemble:
    """Trains an ensemble.

    Args:
      model: a built-in network's name ("mlp", "lenet", "wide_resnet", …) or a `nu.Model`.
      x: `[N, …]`; floats are used as they are (see `standardize`), uint8 images become x/255.
      y: `[N]`, labels of any type.
      x_unlabeled: `[M, …]`, or None.
      method: a method of `nu.methods`, or its name; `Nu(beta=0.01)` by default, `Standard()` without unlabelled data.
      n_members: K.
      epochs: passes over the labelled rows, 100 by default, of whole batches: 70 rows in batches of 32 are two steps.
        Or give `steps`, the number of optimiser steps.
      seed: a whole number or a `jax.random` key. Member k depends on the seed and k alone, not on K.
      classes: all classes, if y does not hold each of them.
      standardize: scale every feature to mean 0 and variance 1 over labelled and unlabelled rows.
      augment: "flip_crop", or any hashable `(key, images) -> images`; for labelled images, as published.
      deterministic: train to the same bits on a GPU, too, where it takes longer; a CPU does so anyway.
      validation: `(x, y)` to score every `evaluate_every` epochs; the scores stand in `ensemble.history`. A method
        of several trainings is scored at its end, and makes its own choices (as "hyper_deep" does) on these rows.
      run_folder: where checkpoints, scores and the model are written as the run goes. With `resume=True` a killed run
        goes on from its last checkpoint, to the same bits on a CPU or with `deterministic=True`.
      add_to: an ensemble trained with the same arguments; only the members that it lacks are trained.
      verbose: 0 is silent; otherwise a progress bar on a terminal.

    Returns:
      the trained `Ensemble`.

    Raises:
      InputError: data or options that cannot be used; the sentence says what to do.
      NonFiniteLossError: the training diverged.
    """
    n_members = check_whole(n_members, "n_members")
    problem = prepare(x, y, x_unlabeled, sample_weight, classes, standardize, names=("x", "x_unlabeled"))
    if method is None:
        method = Nu() if problem.n_unlabeled else Standard()
    chosen = effective_method(methods.build(method) if isinstance(method, str) else method, problem.n_unlabeled)
    network = build_network(model, problem, {} if dtype == "float32" else {"dtype": dtype}, chosen)
    settings = Settings(
        batch_size=batch_size,
        unlabeled_batch_size=unlabeled_batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        augment=as_augmentation(augment),
        augment_unlabeled=augment_unlabeled,
        optimiser=optimizer,
        dtype=dtype,
        plan=plan,
        deterministic=deterministic,
    )
    n_steps = _n_steps(epochs, steps, len(problem.x), batch_size)
    training = {
        "method": chosen.name,
        "hyper_parameters": methods.hyper_parameters(chosen),
        "seed": np.asarray(jax.random.key_data(random_key(seed))).tolist(),
        "n_steps": n_steps,
        "batch_size": batch_size,
        "unlabeled_batch_size": unlabeled_batch_size or batch_size,
        "learning_rate": learning_rate,
        "weight_decay": weight_decay,
        "n_labelled": len(problem.x),
        "n_unlabelled": problem.n_unlabeled,
        "dtype": dtype,
        "augment": None if augment is None else lasting_repr(settings.augment),
        "augment_unlabeled": augment_unlabeled,
        "optimizer": "AdamW" if optimizer is None else lasting_repr(optimizer),
    }
    members = _missing_members(add_to, n_members, training, problem, network, chosen)
    first = chosen.base if isinstance(chosen, Procedure) else chosen
    check_plan(plan, first)
    settings.check_augmentation(first)
    held_out = None if validation is None else validation_rows(problem, validation)
    check_training(chosen, problem, settings, validated=held_out is not None)
    every = n_steps_of(check_positive(evaluate_every, "evaluate_every"), len(problem.x), batch_size)
    if resume and run_folder is None:
        raise InputError("resume=True needs the run_folder of the run that is to go on.")
    # Only now, when the data and the options are known to be good, is anything written.
    run = None
    if run_folder is not None:
        run = RunFolder(run_folder, {"n_members": n_members, **training}, resume, checkpoint_seconds)
    history: list[dict[str, Any]] = []
    recorded = _recording(history, run)
    scoring = None if held_out is None else _scoring(*held_out, n_steps, every, recorded)
    trained = fit_members(
        problem,
        network,
        chosen,
        settings,
        members,
        n_steps,
        seed,
        validation=held_out,
        evaluate=scoring,
        run=run,
        verbose=verbose,
    )
    ensemble = ensemble_of(trained, problem, training, history=history)
    if validation is not None and held_out is not None and isinstance(chosen, Procedure):
        recorded(n_steps, ensemble.predict_members(validation[0]), held_out[1])
    if run is not None:
        ensemble = dataclasses.replace(ensemble, history=run.rows())
    if add_to is not None:
        ensemble = add_to.with_members_of(ensemble)
    if run is not None:
        ensemble.save(run.folder / "model")
        run.finish()
    return ensemble


def _n_steps(epochs: float | None, steps: int | None, n_rows: int, batch_size: int) -> int:
    if steps is not None:
        if epochs is not None:
            raise InputError("Give epochs or steps, not both.")
        return check_whole(steps, "steps")
    epochs = 100 if epochs is None else check_positive(epochs, "epochs")
    return n_steps_of(epochs, n_rows, batch_size)


def _missing_members(
    add_to: Ensemble | None,
    n_members: int,
    training: dict[str, Any],
    problem: Problem,
    network: Model,
    method: AnyMethod,
) -> list[int]:
    if add_to is None:
        return list(range(n_members))
    if method.shape != "independent":
        raise InputError(
            f"Members of {method.name!r} do not train independently, so none can be added; train the larger ensemble "
            "anew."
        )
    if add_to.n_members >= n_members:
        raise InputError(f"The ensemble has {add_to.n_members} members already; ask for more than that (n_members).")
    differing = [name for name, value in training.items() if add_to.training.get(name) != value]
    scaling = problem.standardisation
    differing += add_to.differences(network, problem.classes, problem.x.shape[1:], scaling, problem.pixels)
    if differing:
        raise InputError(
            f"The ensemble was trained with another {' and '.join(differing)}; members can be added only with the same "
            "arguments."
        )
    return list(range(add_to.n_members, n_members))


def _recording(history: list[dict[str, Any]], run: RunFolder | None) -> Callable[[int, np.ndarray, np.ndarray], None]:
    """A function that puts the scores at a step, of probabilities `[K, N, C]`, into the history and the run folder."""

    def record(step: int, probabilities: np.ndarray, labels: np.ndarray) -> None:
        row = {"step": step, **{name: float(value) for name, value in score(probabilities, labels).items()}}
        history.append(row)
        if run is not None:
            run.add_row(row)

    return record


def _scoring(
    x: np.ndarray,
    labels: np.ndarray,
    n_steps: int,
    every: int,
    record: Callable[[int, np.ndarray, np.ndarray], None],
) -> Evaluate:
    """Predict the validation rows now and then, and record their scores."""
    at = [*range(every, n_steps, every), n_steps]
    return Evaluate(x, at, then=lambda step, probabilities: record(step, probabilities, labels))
