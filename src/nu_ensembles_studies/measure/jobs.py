"""From a cell to what is trained: its network, its job, the steps at which it is measured, its random labels."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import numpy as np

from nu_ensembles.engine.assembly import label_key
from nu_ensembles.engine.augmentation import FlipAndCrop
from nu_ensembles.engine.settings import Settings
from nu_ensembles.methods import AnyMethod, build
from nu_ensembles.models import Model
from nu_ensembles.problem import random_key
from nu_ensembles.training import TrainingJob, make_job, steps_in
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.measure.parts import Parts

# Told of steps of single members that were done.
Report = Callable[[int], None]


@dataclasses.dataclass(frozen=True, eq=False)
class Arrived:
    """A cell at one of its epochs.

    members: probabilities `[K, N, C]` on the rows that are measured.
    predict: the same for any rows.
    """

    cell: StudyCell
    epochs: int
    members: np.ndarray
    predict: Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class Diverged:
    """A cell that cannot go on."""

    cell: StudyCell
    reason: str


def method_of(cell: StudyCell) -> AnyMethod:
    """The method of a cell; nu with beta = 0 is the standard ensemble."""
    return build(cell.method, **dict(cell.options)).effective()


def job_of(cell: StudyCell, model: Model, parts: Parts) -> TrainingJob:
    """The training of a cell, to its last epoch."""
    settings = Settings(
        batch_size=cell.batch_size,
        unlabeled_batch_size=cell.unlabeled_batch_size,
        learning_rate=cell.learning_rate,
        weight_decay=cell.weight_decay,
        augment=FlipAndCrop(published_offsets=True) if cell.augment else None,
    )
    what = parts.problem, model, method_of(cell), settings, cell.n_members
    return make_job(*what, max(steps_of(cell)), random_key(cell.seed), validation=parts.validation)


def steps_of(cell: StudyCell) -> dict[int, int]:
    """Step -> epochs, for every epoch at which the cell is measured."""
    return {steps_in(epochs, cell.n_train, cell.batch_size): epochs for epochs in cell.epochs}


def member_steps(cell: StudyCell) -> int:
    """Steps of all members of a cell together."""
    return cell.n_members * max(steps_of(cell))


def random_targets(cell: StudyCell, parts: Parts) -> np.ndarray | None:
    """The labels `[K, M]` that the members of a cell get on the unlabelled rows, or None."""
    method, n_unlabeled = method_of(cell), len(parts.x_unlabeled)
    if not (method.is_one_training and method.uses_unlabeled and n_unlabeled):
        return None
    key = label_key(random_key(cell.seed))
    found = method.base.unlabeled_targets(key, n_unlabeled, parts.n_classes, cell.n_members)
    return None if found is None else np.asarray(found)
