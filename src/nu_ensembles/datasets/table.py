"""What every reader of data files is asked for, and what it gives back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from nu_ensembles.checks import shown
from nu_ensembles.errors import InputError
from nu_ensembles.tables import ColumnTypes, RawTable, read_column_types
from nu_ensembles.tables.column import Kind

# Of a side of an image; more than any picture has.
MOST_PIXELS = 1 << 16


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a data file.

    Attributes:
      X: float `[N, F]` for a table of numbers, where a gap is `nan`; a `RawTable` for one with text or dates, which the
        classifiers and `nu.fit` take; `[N, H, W, C]` for images, uint8 if they come from image files.
      y: labels `[N]` (integers, floats, booleans or text, or objects if some are None), or `None` for unlabelled rows.
      feature_names: names of the F columns, or `None` where a file has none.
      kind: what a row is.
      row_names: for a folder of images the relative path of each, else `None`.
      kept: the columns of text that were to be kept beside the features, `[N]` each.
    """

    X: Any
    y: np.ndarray | None
    feature_names: tuple[str, ...] | None
    kind: Literal["table", "images"]
    row_names: tuple[str, ...] | None = None
    kept: Mapping[str, np.ndarray] = field(default_factory=dict)

    @property
    def rows(self) -> Any:
        """X, with the names of its columns where it has some."""
        if self.feature_names is None or isinstance(self.X, RawTable):
            return self.X
        return RawTable.of_numbers(self.X, self.feature_names)


@dataclass(frozen=True)
class ReadOptions:
    """How to read a data file; the arguments of `read_table`, checked once."""

    target: str | None = None
    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    ignore: Sequence[str] = ()
    image_size: tuple[int, int] | None = None
    channels: int | None = None
    keep: Sequence[str] = ()
    column_types: ColumnTypes | None = None

    def __post_init__(self) -> None:
        for option in ("drop", "ignore", "keep"):
            if isinstance(getattr(self, option), str):
                raise InputError(f"{option} must be a list of column names, not {getattr(self, option)!r}.")
        named = self.columns is None or (len(self.columns) and all(isinstance(name, str) for name in self.columns))
        if not named or isinstance(self.columns, str):
            raise InputError(f"columns must list at least one column by its name, not {shown(self.columns)}.")
        size = self.image_size
        fits = isinstance(size, list | tuple) and len(size) == 2
        if size is not None and not (fits and all(isinstance(n, int | np.integer) and n > 0 for n in size)):
            raise InputError(f"image_size must be (height, width) in pixels, not {shown(size)}.")
        if size is not None and max(size) > MOST_PIXELS:
            raise InputError(f"image_size must be at most {MOST_PIXELS} pixels a side, not {shown(size)}.")
        if self.channels is not None and (
            not isinstance(self.channels, int | np.integer) or self.channels not in (1, 3)
        ):
            raise InputError(f"channels must be 1 (grey) or 3 (colour), not {shown(self.channels)}.")

    @property
    def declared(self) -> dict[str, tuple[Kind, tuple[str, ...]]]:
        """Kinds, and levels in their order, by column."""
        return {} if self.column_types is None else read_column_types(self.column_types)


class NoTargetError(InputError):
    """A file without the column of labels: of no use where labels are needed, but good enough to predict."""


class NoRowsError(InputError):
    """A file that has a form but no content: no use as training data, but a legitimate empty set of unlabelled rows."""


def table_of(raw: RawTable, y: np.ndarray | None, kept: Mapping[str, np.ndarray]) -> Table:
    """A table of numbers, if its columns hold nothing else."""
    only_numbers = all(part.kind == "number" for part in raw.parts)
    return Table(np.asarray(raw) if only_numbers else raw, y, raw.names, "table", kept=kept)


def require_rows(file: str, n_rows: int) -> None:
    """Refuses a file that has a form but no content."""
    if n_rows == 0:
        raise NoRowsError(f"{file} has no rows of data: add some, or give another file.")


def require_one_label_a_row(file: str, n_rows: int, n_labels: int) -> None:
    """Refuses labels that cannot be matched to rows."""
    if n_rows != n_labels:
        raise InputError(f"{file} has {n_rows} rows but {n_labels} labels: give one label for each row.")
