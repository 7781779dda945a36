"""What every reader of data files is asked for, and what it gives back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nu_ensembles.errors import InputError


@dataclass(frozen=True, eq=False)
class Table:
    """Rows of a data file.

    Attributes:
      X: float `[N, F]` for a table; `[N, H, W, C]` for images, uint8 if they come from image files.
      y: labels `[N]` (integers, floats, booleans or text), or `None` for unlabelled rows.
      feature_names: names of the F columns, or `None` where a file has none.
      kind: what a row is.
      row_names: for a folder of images the relative path of each, else `None`.
    """

    X: np.ndarray
    y: np.ndarray | None
    feature_names: tuple[str, ...] | None
    kind: Literal["table", "images"]
    row_names: tuple[str, ...] | None = None


@dataclass(frozen=True)
class ReadOptions:
    """How to read a data file; the arguments of `read_table`, checked once."""

    target: str | None = None
    columns: Sequence[str] | None = None
    drop: Sequence[str] = ()
    ignore: Sequence[str] = ()
    image_size: tuple[int, int] | None = None
    channels: int | None = None

    def __post_init__(self) -> None:
        for option in ("drop", "ignore"):
            if isinstance(getattr(self, option), str):
                raise InputError(f"{option} must be a list of column names, not {getattr(self, option)!r}.")
        size = self.image_size
        if size is not None and (len(size) != 2 or not all(isinstance(n, int | np.integer) and n > 0 for n in size)):
            raise InputError(f"image_size must be (height, width) in pixels, not {size!r}.")
        if self.channels not in (None, 1, 3):
            raise InputError(f"channels must be 1 (grey) or 3 (colour), not {self.channels!r}.")


class NoRowsError(InputError):
    """A file that has a form but no content: no use as training data, but a legitimate empty set of unlabelled rows."""


def require_rows(file: str, n_rows: int) -> None:
    """Refuses a file that has a form but no content."""
    if n_rows == 0:
        raise NoRowsError(f"{file} has no rows of data: add some, or give another file.")


def require_one_label_a_row(file: str, n_rows: int, n_labels: int) -> None:
    """Refuses labels that cannot be matched to rows."""
    if n_rows != n_labels:
        raise InputError(f"{file} has {n_rows} rows but {n_labels} labels: give one label for each row.")
