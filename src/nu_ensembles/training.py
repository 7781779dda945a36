"""`nu.fit`: from arrays to a trained ensemble, for any network and any method.

The scikit-learn classifiers add input scaling by default and the choice of beta; this is the level below.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import numpy as np
import optax
from jax import Array

from nu_ensembles import methods, models
from nu_ensembles.engine.assembly import Settings, label_key, member_lanes, on_device
from nu_ensembles.engine.augmentation import Augmentation, as_augmentation
from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.engine.plans import check_plan
from nu_ensembles.engine.train import Evaluate, train
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.errors import InputError
from nu_ensembles.inputs import Unlabeled, check_labels, check_positive, check_rows, check_weights, check_whole
from nu_ensembles.labels import random_key
from nu_ensembles.methods import Method, Nu, Standard
from nu_ensembles.metrics import evaluate as score
from nu_ensembles.models import Model
from nu_ensembles.preprocessing import Standardisation, check_kind, network_rows
from nu_ensembles.runs import RunFolder


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Checked data, ready for the engine: x `[N, …]` float32 or uint8, codes int32 `[N]`, weight `[N]`.

    row_numbers: `[N]`, where the rows stood in what the user gave.
    """

    x: np.ndarray
    codes: np.ndarray
    weight: np.ndarray
    x_unlabeled: np.ndarray | None
    classes: np.ndarray
    standardisation: Standardisation | None
    row_numbers: np.ndarray

    @property
    def n_unlabeled(self) -> int:
        return 0 if self.x_unlabeled is None else len(self.x_unlabeled)

    @property
    def pixels(self) -> bool:
        """Whether the rows are bytes, which the network gets as x/255."""
        return self.x.dtype == np.uint8

    def rows(self, x: Any, name: str) -> np.ndarray:
        """Further rows (validation data), checked and scaled as the training rows were."""
        x = check_rows(x, name, self.x.shape[1:])
        if self.standardisation is None:
            check_kind(x, self.pixels, name)
        return network_rows(x, self.standardisation)


def prepare(
    x: Any,
    y: Any,
    x_unlabeled: Any = None,
    sample_weight: Any = None,
    classes: Sequence[Any] | np.ndarray | None = None,
    standardize: bool = False,
    row_numbers: np.ndarray | None = None,
    names: tuple[str, str] = ("X", "X_unlabeled"),
) -> Problem:
    """Checks the data, drops rows without weight, and scales the inputs."""
    if isinstance(x_unlabeled, Unlabeled):
        x_unlabeled = x_unlabeled.rows
    x = check_rows(x, names[0])
    found, codes = check_labels(y, classes, len(x))
    weight = check_weights(sample_weight, len(x))
    counted = weight > 0
    numbers = (np.arange(len(x)) if row_numbers is None else row_numbers)[counted]
    x, codes, weight = x[counted], codes[counted], weight[counted]
    u = None
    if x_unlabeled is not None and len(x_unlabeled):
        u = check_rows(x_unlabeled, names[1], x.shape[1:])
        check_kind(u, x.dtype == np.uint8, names[1])
    scaling = Standardisation.fit(*(part for part in (x, u) if part is not None)) if standardize else None
    return Problem(
        network_rows(x, scaling),
        codes,
        weight,
        None if u is None else network_rows(u, scaling),
        found,
        scaling,
        numbers,
    )


def build_network(model: str | Model, problem: Problem, options: dict[str, Any]) -> Model:
    """The network, after a look at its shapes: it must take the rows and give one logit per class."""
    if isinstance(model, str):
        network = models.build(model, len(problem.classes), **options)
    elif isinstance(model, Model):
        network = model
    else:
        raise InputError(
            f"model must be a name or a nu.Model, not a {type(model).__name__}; wrap your own module with "
            "nu.models.from_linen, from_nnx or from_equinox."
        )
    x = jax.ShapeDtypeStruct((2, *problem.x.shape[1:]), np.float32)
    key = jax.eval_shape(lambda: random_key(0))
    variables = jax.eval_shape(network.init, key, x)
    logits = jax.eval_shape(lambda v, x: network.apply(v, x, key=None, train=False), variables, x)
    expected = 2, len(problem.classes)
    found = getattr(logits, "shape", type(logits).__name__)
    if found != expected:
        raise InputError(
            f"The network turns two rows into {found} where {expected} is expected: one logit for each class of y."
        )
    return network


def effective_method(method: Method, n_unlabeled: int) -> Method:
    """The method that will run: one that needs unlabelled data and has none becomes the standard ensemble."""
    method = method.effective()
    if method.uses_unlabeled and n_unlabeled == 0:
        warnings.warn(
            f"There is no unlabelled data, so {method.name!r} falls back to a standard ensemble; pass unlabelled rows "
            "to use it.",
            stacklevel=3,
        )
        return Standard()
    return method


def n_steps_of(epochs: float, n_rows: int, batch_size: int) -> int:
    """Optimiser steps in so many passes over the labelled rows; the last partial batch of a pass is not counted."""
    return max(1, round(epochs * max(1, n_rows // batch_size)))


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
    key = random_key(seed)
    u = problem.x_unlabeled if method.uses_unlabeled else None
    targets = None
    if u is not None:
        targets = method.unlabeled_targets(label_key(key), len(u), len(problem.classes), max(members) + 1)
    data = on_device(problem.x, problem.codes, problem.weight, u, targets)
    trained = train(
        settings.program(model, len(problem.x), 0 if u is None else len(u)),
        member_lanes(key, members, len(problem.x), method, settings),
        data,
        n_steps,
        plan=settings.plan,
        evaluate=evaluate,
        checkpoints=run.checkpoints if run else None,
        verbose=verbose,
        description=f"{method.name}, {len(members)} members",
    )
    return trained.params, trained.model_state


def fit(
    model: str | Model,
    x: Any,
    y: Any,
    x_unlabeled: Any = None,
    method: Method | str | None = None,
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
      epochs: passes over the labelled rows, 100 by default; or give `steps`, the number of optimiser steps.
      seed: a whole number or a `jax.random` key. Member k depends on the seed and k alone, not on K.
      classes: all classes, if y does not hold each of them.
      standardize: scale every feature to mean 0 and variance 1 over labelled and unlabelled rows.
      augment: "flip_crop", or any hashable `(key, images) -> images`; for labelled images, as published.
      validation: `(x, y)` to score every `evaluate_every` epochs; the scores stand in `ensemble.history`.
      run_folder: where checkpoints, scores and the model are written as the run goes. With `resume=True` a killed run
        goes on from its last checkpoint, to the same bits on a CPU.
      add_to: an ensemble trained with the same arguments; only the members that it lacks are trained.
      verbose: 0 is silent; otherwise a progress bar on a terminal.

    Returns:
      the trained `Ensemble`.

    Raises:
      InputError: data or options that cannot be used; the sentence says what to do.
      NonFiniteLossError: the training diverged.
    """
    check_whole(n_members, "n_members")
    problem = prepare(x, y, x_unlabeled, sample_weight, classes, standardize, names=("x", "x_unlabeled"))
    network = build_network(model, problem, {} if dtype == "float32" else {"dtype": dtype})
    if method is None:
        method = Nu() if problem.n_unlabeled else Standard()
    chosen = effective_method(methods.build(method) if isinstance(method, str) else method, problem.n_unlabeled)
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
    check_plan(plan, chosen)
    held_out = None if validation is None else validation_rows(problem, validation)
    every = n_steps_of(check_positive(evaluate_every, "evaluate_every"), len(problem.x), batch_size)
    # Only now, when the data and the options are known to be good, is anything written.
    run = None
    if run_folder is not None:
        run = RunFolder(run_folder, {"n_members": n_members, **training}, resume, checkpoint_seconds)
    history: list[dict[str, Any]] = []
    params, model_state = fit_problem(
        problem,
        network,
        chosen,
        settings,
        members,
        n_steps,
        seed,
        evaluate=None if held_out is None else _scoring(*held_out, n_steps, every, history, run),
        run=run,
        verbose=verbose,
    )
    ensemble = Ensemble(
        network,
        params,
        model_state,
        problem.classes,
        problem.x.shape[1:],
        problem.standardisation,
        problem.pixels,
        training=training,
        history=run.rows() if run else history,
    )
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
    method: Method,
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


def validation_rows(problem: Problem, validation: tuple[Any, Any]) -> tuple[np.ndarray, np.ndarray]:
    """Rows and class numbers `[N]` of a validation set `(x, y)`, checked and scaled as the training rows were."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise InputError("validation must be a pair, (x, y).")
    x = problem.rows(validation[0], "the validation x")
    return x, check_labels(validation[1], problem.classes, len(x))[1]


def _scoring(
    x: np.ndarray, labels: np.ndarray, n_steps: int, every: int, history: list[dict[str, Any]], run: RunFolder | None
) -> Evaluate:
    """Predict the validation rows now and then, and put their scores into the history and the run folder."""
    at = [*range(every, n_steps, every), n_steps]

    def then(step: int, probabilities: np.ndarray) -> None:
        row = {"step": step, **{name: float(value) for name, value in score(probabilities, labels).items()}}
        history.append(row)
        if run is not None:
            run.add_row(row)

    return Evaluate(x, at, then)
