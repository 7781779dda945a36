"""A training, fully decided before it starts: what is trained, by which method, how, for how long, from which seed.

`nu.fit`, the classifiers, searches and studies all make their jobs here and hand them to the same runner.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import numpy as np
from jax import Array

from nu_ensembles import methods, models
from nu_ensembles.calibration import FittedCalibrator
from nu_ensembles.calibration.temperature import FittedTemperature
from nu_ensembles.checks import check_whole
from nu_ensembles.companion import Companion
from nu_ensembles.engine.checkpoints import lasting_repr
from nu_ensembles.engine.settings import Settings
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.errors import InputError
from nu_ensembles.methods import AnyMethod, Members, TrainingRows
from nu_ensembles.models import Model
from nu_ensembles.models.sparse import TAKE_SPARSE, for_dense_rows, for_sparse_rows
from nu_ensembles.problem import Problem, plain_seed, widened
from nu_ensembles.rows import LazyRows

MOST_MEMBERS = 1_000_000


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingJob:
    """Everything that decides a training.

    Attributes:
      problem: the data, checked and scaled.
      network: what each member is.
      method: as it will run on these data (`Nu(0)` is `Standard()`).
      settings: batch sizes, rates, plan and so on.
      members: the numbers of the members to train.
      n_steps: optimiser steps of each.
      key: of the seed. Member k depends on it and on k alone.
      validation: labelled rows beside the problem's, scaled as those are, or None.
      rows: the problem's, as methods and the engine take them.
    """

    problem: Problem
    network: Model
    method: AnyMethod
    settings: Settings
    members: tuple[int, ...]
    n_steps: int
    key: Array
    validation: TrainingRows | None = None
    rows: TrainingRows = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        rows = TrainingRows(problem.x, problem.y, problem.weight, problem.x_unlabeled)
        object.__setattr__(self, "rows", rows)

    def replace(self, **changes: Any) -> TrainingJob:
        """The same job but for these."""
        return dataclasses.replace(self, **changes)

    def on_rows(self, rows: np.ndarray, number: int) -> TrainingJob:
        """The job of a fold: on these labelled rows alone, with a seed of its own, and not shown any validation."""
        key = jax.random.fold_in(self.key, number)
        return self.replace(problem=self.problem.part(rows), key=key, validation=None)

    def manifest(self) -> dict[str, Any]:
        """What the ensemble's manifest tells of the training; plain values."""
        settings = self.settings
        return {
            "method": self.method.name,
            "hyper_parameters": methods.hyper_parameters(self.method),
            "seed": plain_seed(self.key),
            "n_steps": self.n_steps,
            "batch_size": settings.batch_size,
            "unlabeled_batch_size": settings.unlabeled_batch_size or settings.batch_size,
            "learning_rate": settings.learning_rate,
            "weight_decay": settings.weight_decay,
            "n_labelled": len(self.problem.x),
            "n_unlabelled": self.problem.n_unlabeled,
            "dtype": settings.dtype,
            "augment": None if settings.augment is None else lasting_repr(settings.augment),
            "augment_unlabeled": settings.augment_unlabeled,
            "optimizer": "AdamW" if settings.optimiser is None else lasting_repr(settings.optimiser),
        }

    def ensemble(
        self,
        members: Members,
        *,
        calibrator: FittedCalibrator | None = None,
        companion: Companion | None = None,
        history: list[dict[str, Any]] | None = None,
        **notes: Any,
    ) -> Ensemble:
        """The ensemble of trained members; what their method notes, and `notes`, join the manifest."""
        networks = members.networks
        # What is a temperature only is kept as one, so that older versions can read it.
        only_scaled = isinstance(calibrator, FittedTemperature)
        of_method = {"procedure": members.notes} if members.notes else {}
        training = {**self.manifest(), **of_method, **notes}
        return Ensemble(
            model=networks.model if self.problem.sparse_columns is None else for_dense_rows(networks.model),
            params=networks.params,
            model_state=networks.model_state,
            classes=self.problem.classes,
            row_shape=self.problem.dense_shape,
            standardisation=self.problem.standardisation,
            pixels=self.problem.pixels,
            columns=self.problem.columns,
            encoding=self.problem.encoding,
            temperature=calibrator.temperature if only_scaled else 1.0,
            calibrator=None if only_scaled else calibrator,
            companion=companion,
            mask_keys=members.mask_keys,
            training=training,
            history=[] if history is None else history,
        )

    def missing_from(self, ensemble: Ensemble) -> TrainingJob:
        """The job of the members that an ensemble, trained by the same job, lacks.

        Raises:
          InputError: it has them all, or was trained otherwise.
        """
        if not self.method.is_independent:
            raise InputError(
                f"Members of {self.method.name!r} do not train independently, so none can be added; train the larger "
                "ensemble anew."
            )
        n_there, n_wanted = ensemble.n_members, len(self.members)
        if n_there >= n_wanted:
            raise InputError(f"The ensemble has {n_there} members already; ask for more than that (n_members).")
        there = ensemble.training
        there = {**there, **({"seed": plain_seed(there["seed"])} if "seed" in there else {})}
        differing = [name for name, value in self.manifest().items() if there.get(name) != value]
        problem = self.problem
        same = (
            for_dense_rows(self.network),
            problem.classes,
            problem.dense_shape,
            problem.standardisation,
            problem.pixels,
            problem.encoding,
        )
        differing += ensemble.differences(*same)
        if differing:
            raise InputError(
                f"The ensemble was trained with another {' and '.join(differing)}; members can be added only with the "
                "same arguments."
            )
        return self.replace(members=tuple(range(n_there, n_wanted)))


def make_job(
    problem: Problem,
    model: str | Model,
    method: AnyMethod | str,
    settings: Settings,
    n_members: int,
    n_steps: int,
    key: Array,
    *,
    model_options: dict[str, Any] | None = None,
    validation: tuple[np.ndarray, np.ndarray] | None = None,
) -> TrainingJob:
    """Decides a training, or says what is wrong with it, before anything is trained or written.

    Args:
      key: of the seed, see `problem.random_key`.
      model_options: of a built-in network.
      validation: rows and class numbers, scaled as the problem is.
    """
    n_members = check_whole(n_members, "n_members", most=MOST_MEMBERS)
    scaled = problem.standardisation is not None and problem.sparse_columns is None
    network = models.network_for(model, len(problem.classes), problem.dense_shape, model_options or {}, scaled)
    method = methods.method_for(method, problem.n_unlabeled)
    if isinstance(problem.x_unlabeled, LazyRows) and method.uses_unlabeled:
        _refuse_whole_sets(method)
    if problem.sparse_columns is not None:
        network = _for_sparse_rows(network, problem.sparse_columns, method, settings)
    if problem.sparse_columns is not None and validation is not None:
        problem = problem.with_room(validation[0].shape[1])
        validation = widened(validation[0], problem.row_shape[0]), validation[1]
    network = method.network(network, problem.row_shape)
    shown = None
    if validation is not None:
        shown = TrainingRows(*validation, np.ones(len(validation[0]), np.float32))
    job = TrainingJob(problem, network, method, settings, tuple(range(n_members)), n_steps, key, shown)
    method.check(job.rows, validated=shown is not None, own_optimizer=settings.optimiser is not None)
    settings.check(method.base, problem.row_shape)
    return job


def _refuse_whole_sets(method: AnyMethod) -> None:
    """Refuses a method that wants all unlabelled rows at once, which memory does not hold."""
    if not method.is_one_training or method.base.is_sequential:
        raise InputError(
            f"{method.name!r} predicts all unlabelled rows on its way, so they must fit into memory; give fewer of "
            "them, or use a method that sees them batch by batch, such as 'nu'."
        )


def _for_sparse_rows(network: Model, columns: int, method: AnyMethod, settings: Settings) -> Model:
    """The network that takes sparse rows; refuses what needs dense ones."""
    too_large = "The rows are a sparse matrix too large to be made dense"
    reduce = "or reduce its columns first, with sklearn.decomposition.TruncatedSVD"
    found = for_sparse_rows(network, columns)
    if found is None:
        raise InputError(f"{too_large}, which only {' and '.join(map(repr, TAKE_SPARSE))} take; use one, {reduce}.")
    if method.changes_rows or settings.augment is not None:
        what = "augment" if settings.augment is not None else f"the method {method.name!r}"
        raise InputError(f"{too_large}, and {what} changes dense rows only; do without it, {reduce}.")
    return found


def steps_in(epochs: float, n_rows: int, batch_size: int) -> int:
    """Optimiser steps in so many passes over the labelled rows; a pass is as many whole batches as they fill.

    70 rows in batches of 32 are two steps a pass, fewer rows than a batch are one: as published.
    """
    return max(1, round(epochs * max(1, n_rows // batch_size)))
