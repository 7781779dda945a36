"""A user's files as arrays, and what a saved model must remember to read other files the same way.

Tables are matched by column name, so a file for prediction may hold its columns in another order, and its
target or not. The description travels in the model's manifest, under `training["data"]`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nu_ensembles.datasets import Table, read_table
from nu_ensembles.datasets.table import NoRowsError
from nu_ensembles.errors import InputError
from nu_ensembles.problem.inputs import check_labels

if TYPE_CHECKING:
    from nu_ensembles.cli.options import DataOptions
    from nu_ensembles.ensemble import Ensemble


@dataclasses.dataclass(frozen=True)
class DataDescription:
    """How the training data were read.

    Attributes:
      feature_names: the columns in their order, or None where they have no names.
      target: the column of labels, if one was named.
      dropped: columns that were left out.
      image_size, channels: what images were brought to, None for what they were.
    """

    feature_names: Sequence[str] | None = None
    target: str | None = None
    dropped: Sequence[str] = ()
    image_size: Sequence[int] | None = None
    channels: int | None = None

    @classmethod
    def of(cls, ensemble: Ensemble) -> DataDescription:
        """What a saved model knows; nothing, if it was not fitted from the command line."""
        stored: Mapping[str, Any] = ensemble.training.get("data", {})
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: value for name, value in stored.items() if name in known})

    def read(self, path: Path, target: str | None = None, drop: Sequence[str] = ()) -> Table:
        """Rows as the training rows were read, all finite; with labels if a target is named or the file has its own."""
        left_out = [name for name in (self.target, *self.dropped) if name is not None and name != target]
        size = None if self.image_size is None else (self.image_size[0], self.image_size[1])
        table = read_table(
            path,
            target,
            columns=self.feature_names,
            drop=drop,
            ignore=left_out,
            image_size=size,
            channels=self.channels,
        )
        refuse_gaps(table, path)
        return table


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingFiles:
    """X `[N, …]` and y `[N]`; U `[M, …]` or None; validation (X, y) or None."""

    X: np.ndarray
    y: np.ndarray
    U: np.ndarray | None
    validation: tuple[np.ndarray, np.ndarray] | None
    description: DataDescription


def read_training_files(train: Path, options: DataOptions, validation: Path | None = None) -> TrainingFiles:
    """Reads and checks the labelled, the unlabelled and the validation rows."""
    asked = DataDescription(target=options.target, image_size=options.image_size, channels=options.channels)
    table = asked.read(train, options.target, options.drop)
    _class_numbers(_labels(table, train), None, train)
    description = dataclasses.replace(
        asked,
        feature_names=table.feature_names,
        dropped=options.drop,
        channels=table.X.shape[-1] if table.kind == "images" else None,
    )
    unlabeled = None if options.unlabeled is None else _unlabeled_rows(description, options.unlabeled)
    if unlabeled is not None:
        refuse_other_shape(unlabeled, options.unlabeled, table.X.shape[1:])
    held_out = None
    if validation is not None:
        other = description.read(validation, options.target)
        refuse_other_shape(other.X, validation, table.X.shape[1:])
        held_out = other.X, _labels(other, validation)
    return TrainingFiles(table.X, _labels(table, train), unlabeled, held_out, description)


def read_labelled(
    description: DataDescription, path: Path, target: str | None, drop: Sequence[str], classes: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and class numbers `[N]` of a file that a trained model is scored on."""
    table = description.read(path, target or description.target, drop)
    labels = _labels(table, path)
    # The training file's labels were text if only one of them was; a file with the others looks like numbers.
    if classes.dtype.kind in "UO" and labels.dtype.kind in "iuf":
        labels = labels.astype(np.str_)
    return table.X, _class_numbers(labels, classes, path)


def refuse_gaps(table: Table, path: Path) -> None:
    """Names the file, row and column of a value that is not a finite number."""
    if table.X.dtype.kind != "f" or np.isfinite(table.X).all():
        return
    bad = ~np.isfinite(table.X)
    first = np.argwhere(bad)[0]
    kind = "NaN" if np.isnan(table.X[bad]).any() else "infinity"
    where = f"row {first[0] + 1}"
    if table.feature_names is not None:
        where += f" of the column {table.feature_names[first[1]]!r}"
    raise InputError(
        f"{path} contains {kind} (or empty cells): {int(bad.sum())} value(s) not finite, the first in {where}; fill in "
        "or remove them first."
    )


def refuse_other_shape(rows: np.ndarray, path: Path | None, row_shape: tuple[int, ...]) -> None:
    """Rows of other columns or images of another size than those of the training file."""
    if rows.shape[1:] != row_shape:
        raise InputError(
            f"{path} has rows of shape {rows.shape[1:]} where the training rows have {row_shape}; give it the same "
            "columns, or images of the same size (--image-size)."
        )


def _unlabeled_rows(description: DataDescription, path: Path) -> np.ndarray | None:
    try:
        return description.read(path).X
    except NoRowsError:
        # The estimator then says that it falls back to a standard ensemble.
        return None


def _class_numbers(labels: np.ndarray, classes: np.ndarray | None, path: Path) -> np.ndarray:
    try:
        return check_labels(labels, classes, len(labels))[1]
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _labels(table: Table, path: Path) -> np.ndarray:
    if table.y is None:
        raise InputError(f"{path} has no labels that are known as such; name their column with --target.")
    return table.y
