"""`nu.fit`: from arrays to a trained ensemble, for any network and any method.

The scikit-learn classifiers add input scaling by default and the choice of beta; this is the level below.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import optax
from jax import Array
from numpy.typing import ArrayLike

from nu_ensembles.checks import check_positive, check_whole, checked
from nu_ensembles.engine.augmentation import Augmentation
from nu_ensembles.engine.settings import Settings
from nu_ensembles.engine.train import Evaluate
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.errors import InputError
from nu_ensembles.methods import AnyMethod, Nu, Standard
from nu_ensembles.metrics import evaluate as score
from nu_ensembles.models import Model
from nu_ensembles.problem import labelled_pair, prepare, random_key
from nu_ensembles.tables import ColumnTypes
from nu_ensembles.training.job import TrainingJob, make_job, steps_in
from nu_ensembles.training.on_ray import RayCluster, members_on_ray, ray_cluster, refuse_members_that_meet
from nu_ensembles.training.run_folder import RunFolder
from nu_ensembles.training.runner import run_job


@checked
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
    sample_weight: float | ArrayLike | None = None,
    classes: Sequence[Any] | np.ndarray | None = None,
    standardize: bool | None = None,
    column_types: ColumnTypes | None = None,
    batch_size: int = 32,
    unlabeled_batch_size: int | None = None,
    learning_rate: float = 1e-3,
    weight_decay: float = 1e-4,
    augment: str | Augmentation | None = None,
    augment_unlabeled: bool = False,
    optimizer: optax.GradientTransformation | None = None,
    dtype: str = "float32",
    plan: str | RayCluster = "auto",
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
      x: `[N, …]`; floats are used as they are (see `standardize`), uint8 images become x/255. Or a data frame with
        text, dates and gaps; see the page on data.
      y: `[N]`, labels of any type; NaN, None and blanks make unlabelled rows.
      x_unlabeled: `[M, …]`, or None.
      method: a method of `nu.methods`, or its name; `Nu(beta=0.01)` by default, `Standard()` without unlabelled data.
      n_members: how many members (K).
      epochs: passes over the labelled rows, 100 by default, of whole batches: 70 rows in batches of 32 are two steps.
      seed: a whole number or a `jax.random` key. Member k depends on the seed and k alone, not on K.
      steps: the number of optimiser steps, instead of `epochs`.
      sample_weight: `[N]`, what each labelled row counts; None for ones. Rows of weight 0 are left out.
      classes: all classes, if y does not hold each of them.
      standardize: scale every feature to mean 0 and variance 1 over labelled and unlabelled rows, or, if it is mostly
        zero, keep its zeros and divide by the size of the rest. By default data frames are scaled and arrays are not.
      column_types: what columns of a table are, where their values do not tell, by name: "category" (a code of
        numbers), "number", "date", or a list of levels in their order. An array's columns are called x0, x1, …
      batch_size: labelled rows a member sees in a step.
      unlabeled_batch_size: unlabelled rows beside them; None for the same number.
      learning_rate: of AdamW, constant.
      weight_decay: of AdamW, decoupled from the gradient; the paper's γ.
      augment: "flip_crop", or any hashable `(key, images) -> images`; for labelled images, as published.
      augment_unlabeled: augment unlabelled images, too.
      optimizer: an optax optimiser instead of AdamW, with its own rate and decay.
      dtype: of the parameters: "float32", or "float64" under jax's x64 mode.
      plan: how members run: "vectorised", "sequential", "sharded", or "auto" for the fastest here; "ray", or a
        `nu.RayCluster`, makes each a task of a Ray cluster (extra `ray`), and validation rows are scored at the end.
      deterministic: train to the same bits on a GPU, too, where it takes longer; a CPU does so anyway.
      validation: `(x, y)` to score now and then; the scores stand in `ensemble.history`. A method of several trainings
        is scored at its end, and makes its own choices (as "hyper_deep" does) on these rows.
      evaluate_every: epochs between two scores on the validation rows.
      run_folder: where checkpoints, scores and the model are written as the run goes.
      resume: go on from the last checkpoint in `run_folder` of a killed run with the same arguments, to the same bits
        on a CPU or with `deterministic=True`.
      checkpoint_seconds: how long at most between two checkpoints.
      add_to: an ensemble trained with the same arguments; only the members that it lacks are trained.
      verbose: 0 is silent; otherwise a progress bar on a terminal.

    Returns:
      the trained `Ensemble`.

    Raises:
      InputError: data or options that cannot be used; the sentence says what to do.
      NonFiniteLossError: the training diverged.
    """
    problem = prepare(
        x,
        y,
        x_unlabeled,
        sample_weight,
        classes,
        standardize,
        names=("x", "x_unlabeled"),
        column_types=column_types,
    )
    if method is None:
        method = Nu() if problem.n_unlabeled else Standard()
    cluster = ray_cluster(plan)
    settings = Settings(
        batch_size=batch_size,
        unlabeled_batch_size=unlabeled_batch_size,
        learning_rate=learning_rate,
        weight_decay=weight_decay,
        augment=augment,
        augment_unlabeled=augment_unlabeled,
        optimiser=optimizer,
        dtype=dtype,
        plan=plan if isinstance(plan, str) and cluster is None else "auto",
        deterministic=deterministic,
    )
    held_out = None
    if validation is not None:
        validation = labelled_pair(validation)
        held_out = problem.further_rows(*validation, "the validation x")
    job = make_job(
        problem,
        model,
        method,
        settings,
        n_members,
        _n_steps(epochs, steps, len(problem.x), batch_size),
        random_key(seed),
        model_options={} if dtype == "float32" else {"dtype": dtype},
        validation=held_out,
    )
    if cluster is not None:
        refuse_members_that_meet(job)
    if add_to is not None:
        job = job.missing_from(add_to)
    every = steps_in(check_positive(evaluate_every, "evaluate_every"), len(problem.x), batch_size)
    asked = {"n_members": n_members, **job.manifest()}
    # Only now, when the data and the options are known to be good, is anything written.
    with RunFolder.wanted(run_folder, lambda: asked, resume, checkpoint_seconds, problem.classes) as run:
        history: list[dict[str, Any]] = []
        recorded = _recording(history, run)
        on_the_way = job.method.is_one_training and cluster is None
        if cluster is not None:
            trained = members_on_ray(job, cluster, run)
        else:
            trained = run_job(job, evaluate=_scoring(job, every, recorded), run=run, verbose=verbose)
        ensemble = job.ensemble(trained, history=history)
        if validation is not None and held_out is not None and not on_the_way:
            recorded(job.n_steps, ensemble.predict_members(validation[0]), held_out[1])
        if run is not None:
            ensemble = dataclasses.replace(ensemble, history=run.rows())
        if add_to is not None:
            ensemble = add_to.with_members_of(ensemble)
        if run is not None:
            run.finish(ensemble)
    return ensemble


def _n_steps(epochs: float | None, steps: int | None, n_rows: int, batch_size: int) -> int:
    check_whole(batch_size, "batch_size")
    if steps is not None:
        if epochs is not None:
            raise InputError("Give epochs or steps, not both.")
        return check_whole(steps, "steps")
    return steps_in(100 if epochs is None else check_positive(epochs, "epochs"), n_rows, batch_size)


def _recording(history: list[dict[str, Any]], run: RunFolder | None) -> Callable[[int, np.ndarray, np.ndarray], None]:
    """A function that puts the scores at a step, of probabilities `[K, N, C]`, into the history and the run folder."""

    def record(step: int, probabilities: np.ndarray, y: np.ndarray) -> None:
        row = {"step": step, **{name: float(value) for name, value in score(probabilities, y).items()}}
        history.append(row)
        if run is not None:
            run.add_row(row)

    return record


def _scoring(job: TrainingJob, every: int, record: Callable[[int, np.ndarray, np.ndarray], None]) -> Evaluate | None:
    """Predict the validation rows now and then, and record their scores, where there are any."""
    rows = job.validation
    if rows is None or not job.method.is_one_training:
        return None
    at = [*range(every, job.n_steps, every), job.n_steps]
    return Evaluate(rows.x, at, then=lambda step, probabilities: record(step, probabilities, rows.y))
