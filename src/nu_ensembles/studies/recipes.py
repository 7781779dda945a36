"""From a cell to what the engine takes: the method, batch sizes and rates, steps, random labels."""

from __future__ import annotations

import numpy as np

from nu_ensembles.engine.assembly import Settings, label_key
from nu_ensembles.engine.augmentation import FlipAndCrop
from nu_ensembles.methods import AnyMethod, Method, Procedure, build
from nu_ensembles.methods.labels import random_key
from nu_ensembles.studies.cells import Cell
from nu_ensembles.studies.data import Parts
from nu_ensembles.training.fit_arrays import n_steps_of


def any_method_of(cell: Cell) -> AnyMethod:
    """The method of a cell; nu with beta = 0 is the standard ensemble."""
    return build(cell.method, **dict(cell.options)).effective()


def method_of(cell: Cell) -> Method:
    """The method of a cell that is one loss."""
    method = any_method_of(cell)
    assert not isinstance(method, Procedure), "procedures train alone"
    return method


def settings_of(cell: Cell) -> Settings:
    """Batch sizes, rates and augmentation of a cell."""
    return Settings(
        batch_size=cell.batch_size,
        unlabeled_batch_size=cell.unlabeled_batch_size,
        learning_rate=cell.learning_rate,
        weight_decay=cell.weight_decay,
        augment=FlipAndCrop(published_offsets=True) if cell.augment else None,
    )


def steps_of(cell: Cell) -> dict[int, int]:
    """Step -> epochs, for every epoch at which the cell is measured."""
    return {n_steps_of(epochs, cell.n_train, cell.batch_size): epochs for epochs in cell.epochs}


def random_targets(cell: Cell, parts: Parts) -> np.ndarray | None:
    """The labels `[K, M]` that the members of a cell get on the unlabelled rows, or None."""
    method = any_method_of(cell)
    if isinstance(method, Procedure) or not method.uses_unlabeled or not len(parts.x_unlabeled):
        return None
    key = label_key(random_key(cell.seed))
    found = method.unlabeled_targets(key, len(parts.x_unlabeled), parts.n_classes, cell.n_members)
    return None if found is None else np.asarray(found)
