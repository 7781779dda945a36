"""A user's files as arrays, and what a saved model must remember to read other files the same way.

Tables are matched by column name, so a file for prediction may hold its columns in another order, and its
target or not. The description travels in the model's manifest, under `training["data"]`.
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from nu_ensembles.datasets import Table, read_table
from nu_ensembles.datasets.columns import likely_target
from nu_ensembles.datasets.open_rows import TAKEN_LAZILY, is_table_of_many_files, open_rows
from nu_ensembles.datasets.table import NoRowsError, NoTargetError
from nu_ensembles.datasets.text_source import STANDARD_INPUT
from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.problem.inputs import check_labels
from nu_ensembles.problem.labels import separate
from nu_ensembles.problem.lazily import takes_little_room
from nu_ensembles.rows import LazyRows
from nu_ensembles.tables import RawTable, SparseRows

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
      kept: columns that are no features and are copied to the predictions.
      column_types: what columns are said to be.
    """

    feature_names: Sequence[str] | None = None
    target: str | None = None
    dropped: Sequence[str] = ()
    image_size: Sequence[int] | None = None
    channels: int | None = None
    kept: Sequence[str] = ()
    column_types: Mapping[str, Any] | None = None

    @classmethod
    def of(cls, ensemble: Ensemble) -> DataDescription:
        """What a saved model knows; nothing, if it was not fitted from the command line."""
        stored: Mapping[str, Any] = ensemble.training.get("data", {})
        known = {field.name for field in dataclasses.fields(cls)}
        description = cls(**{name: value for name, value in stored.items() if name in known})
        encoding = ensemble.encoding
        if encoding is None or not encoding.named:
            return description
        # What the columns turned out to be is how the cells of other files are to be read.
        types = {each.name: each.levels or each.kind for each in encoding.expected if each.kind is not None}
        left_out = (*description.dropped, *encoding.left_out)
        return dataclasses.replace(description, feature_names=encoding.columns, dropped=left_out, column_types=types)

    def read(self, path: Path, target: str | None = None, drop: Sequence[str] = (), keep: Sequence[str] = ()) -> Table:
        """Rows as the training rows were read, none infinite; with labels if a target is named or the file has some."""
        others = (self.target, *self.dropped, *self.kept)
        left_out = [name for name in others if name is not None and name != target]
        size = None if self.image_size is None else (self.image_size[0], self.image_size[1])
        table = read_table(
            path,
            target,
            columns=self.feature_names,
            drop=drop,
            ignore=left_out,
            image_size=size,
            channels=self.channels,
            keep=keep,
            column_types=self.column_types,
        )
        refuse_infinity(table, path)
        return table

    def opened(self, path: Path) -> LazyRows | None:
        """Rows that are taken as they are needed: of several parquet or Arrow files, a .npy file, many images.

        None for a path that `read` is for.
        """
        is_images = path.is_dir() and not is_table_of_many_files(path)
        if not (is_images or is_table_of_many_files(path) or path.suffix.lower() in TAKEN_LAZILY):
            return None
        found = self.taken_lazily(path)
        return None if is_images and takes_little_room(found) else found

    def taken_lazily(self, path: Path) -> LazyRows:
        """The same of whatever rows can be taken one by one, however few."""
        others = (self.target, *self.dropped, *self.kept)
        size = None if self.image_size is None else (self.image_size[0], self.image_size[1])
        return open_rows(
            path,
            str(path),
            columns=self.feature_names,
            ignore=[name for name in others if name is not None],
            image_size=size,
            channels=self.channels,
        )


@dataclasses.dataclass(frozen=True, eq=False)
class TrainingFiles:
    """X `[N, …]` and y `[N]`; U `[M, …]` or None; validation (X, y) or None. Rows are arrays or raw tables."""

    X: Any
    y: np.ndarray
    U: Any
    validation: tuple[Any, np.ndarray] | None
    description: DataDescription


def read_training_files(train: Path, options: DataOptions, validation: Path | None = None) -> TrainingFiles:
    """Reads and checks the labelled, the unlabelled and the validation rows."""
    if [train, options.unlabeled, validation].count(STANDARD_INPUT) > 1:
        raise InputError("Only one file can come from standard input (-); give the others by name.")
    types = column_types(options.column_type)
    asked = DataDescription(
        target=options.target,
        image_size=options.image_size,
        channels=options.channels,
        column_types=types,
    )
    table = asked.read(train, options.target, options.drop, options.keep)
    _class_numbers(_labels(table, train), None, train)
    description = dataclasses.replace(
        asked,
        feature_names=table.feature_names,
        dropped=options.drop,
        kept=options.keep,
        channels=table.X.shape[-1] if table.kind == "images" else None,
    )
    X = table.rows
    unlabeled = None if options.unlabeled is None else _unlabeled_rows(description, options.unlabeled)
    if unlabeled is not None:
        refuse_other_shape(unlabeled, options.unlabeled, X.shape[1:])
    held_out = None
    if validation is not None:
        other = description.read(validation, options.target)
        refuse_other_shape(other.rows, validation, X.shape[1:])
        held_out = other.rows, _labels(other, validation)
    return TrainingFiles(X, _labels(table, train), unlabeled, held_out, description)


def column_types(options: Sequence[str]) -> dict[str, Any] | None:
    """What `--column-type size=S,M,L` and `--column-type zip=category` say, by column."""
    types: dict[str, Any] = {}
    for option in options:
        name, equals, said = option.rpartition("=")
        if not equals or not name or not said:
            raise InputError(f"--column-type takes COLUMN=TYPE, as in zip=category or size=S,M,L, not {option!r}.")
        types[name] = [level.strip() for level in said.split(",")] if "," in said else said
    return types or None


def read_labelled(
    description: DataDescription, path: Path, target: str | None, drop: Sequence[str], classes: np.ndarray
) -> tuple[Any, np.ndarray]:
    """Rows and class numbers `[N]` of a file that a trained model is scored on; rows without a label are left out."""
    table = description.read(path, target or description.target, drop)
    labels, labelled = separate(_labels(table, path), str(path))
    # The training file's labels were text if only one of them was; a file with the others looks like numbers.
    if classes.dtype.kind in "UO" and labels.dtype.kind in "iuf":
        labels = labels.astype(np.str_)
    rows = table.rows if labelled is None else table.rows[labelled]
    return rows, _class_numbers(labels, classes, path)


def read_with_labels(
    description: DataDescription, path: Path, target: str | None, drop: Sequence[str], ensemble: Ensemble
) -> Table:
    """Rows with their labels if the file has any; a target that is asked for must be there."""
    try:
        table = description.read(path, target or description.target, drop, description.kept)
    except NoTargetError:
        if target is not None:
            raise
        table = description.read(path, None, drop, description.kept)
    if ensemble.encoding is None:
        refuse_other_shape(table.X, path, ensemble.row_shape)
    labels, kept = table.y, next(iter(table.kept.values()), None)
    # As in `read_labelled`: text that is numbers in this file.
    if labels is not None and ensemble.classes.dtype.kind in "UO" and labels.dtype.kind in "iuf":
        labels = labels.astype(np.str_)
    names = table.row_names if kept is None else kept.tolist()
    return dataclasses.replace(table, y=labels, row_names=names)


def refuse_infinity(table: Table, path: Path) -> None:
    """Names the file, row and column of a value that is not finite; NaN are gaps in a table and refused in images."""
    if isinstance(table.X, SparseRows):
        return  # looked at when they were read
    rows = table.rows if isinstance(table.rows, RawTable) else np.asarray(table.X)
    if isinstance(rows, RawTable):
        bad = {part.name: np.isinf(part.values) for part in rows.parts if part.kind == "number"}
        names = [f" of the column {name!r}" for name, wrong in bad.items() if wrong.any()]
        found = [wrong for wrong in bad.values() if wrong.any()]
    else:
        wrong = np.isinf(rows) if rows.ndim == 2 else ~np.isfinite(rows)
        found, names = ([wrong.reshape(len(rows), -1).any(axis=1)] if wrong.any() else []), [""]
    if found:
        n_bad, row = sum(int(wrong.sum()) for wrong in found), int(np.argmax(found[0])) + 1
        raise InputError(
            f"{path} contains infinity: {n_bad} value(s) not finite, the first in row {row}{names[0]}; correct or "
            "remove them first."
        )


def refuse_other_shape(rows: Any, path: Path | None, row_shape: tuple[int, ...]) -> None:
    """Rows of other columns or images of another size than those of the training file."""
    if rows.shape[1:] != row_shape:
        raise InputError(
            f"{path} has rows of shape {rows.shape[1:]} where the training rows have {row_shape}; give it the same "
            "columns, or images of the same size (--image-size)."
        )


def _unlabeled_rows(description: DataDescription, path: Path) -> Any:
    found = description.opened(path)
    if found is not None:
        return found
    try:
        return description.read(path).rows
    except NoRowsError:
        # The estimator then says that it falls back to a standard ensemble.
        return None


def _class_numbers(labels: np.ndarray, classes: np.ndarray | None, path: Path) -> np.ndarray:
    try:
        with warnings.catch_warnings():
            # How many have no label is said when the rows are used.
            warnings.simplefilter("ignore", DataWarning)
            labels, _ = separate(labels, "the target")
        return check_labels(labels, classes, len(labels))[1]
    except InputError as error:
        raise InputError(f"{path}: {error}") from error


def _labels(table: Table, path: Path) -> np.ndarray:
    if table.y is None:
        likely = likely_target(table.rows) if isinstance(table.rows, RawTable) else None
        hint = f" (did you mean --target {likely}?)" if likely else ""
        raise InputError(f"{path} has no labels that are known as such; name their column with --target{hint}.")
    return table.y
