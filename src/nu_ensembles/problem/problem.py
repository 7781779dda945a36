"""The user's data, checked and scaled once."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from nu_ensembles.errors import InputError
from nu_ensembles.problem.columns import column_names, in_order
from nu_ensembles.problem.inputs import Unlabeled, check_labels, check_rows, check_weights
from nu_ensembles.problem.preprocessing import Standardisation, check_kind, network_rows


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Checked data, ready for the engine.

    x: `[N, …]`, float32 or uint8; y: class numbers, int32 `[N]`; weight: `[N]`, mean one.
    x_unlabeled: `[M, …]` or None.
    classes: `[C]`, what the class numbers stand for.
    standardisation: what the rows were scaled by, or None.
    row_numbers: `[N]`, where the rows stood in what the user gave.
    columns: names of the columns, or None where they have none.
    pixels: whether the rows are bytes, which the network gets as x/255.
    """

    x: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    x_unlabeled: np.ndarray | None
    classes: np.ndarray
    standardisation: Standardisation | None
    row_numbers: np.ndarray
    columns: tuple[str, ...] | None = None
    n_unlabeled: int = dataclasses.field(init=False)
    row_shape: tuple[int, ...] = dataclasses.field(init=False)
    pixels: bool = dataclasses.field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "n_unlabeled", 0 if self.x_unlabeled is None else len(self.x_unlabeled))
        object.__setattr__(self, "row_shape", self.x.shape[1:])
        object.__setattr__(self, "pixels", self.x.dtype == np.uint8)

    def part(self, rows: np.ndarray) -> Problem:
        """The problem of these labelled rows alone; the unlabelled ones stay."""
        x, y, weight, numbers = self.x[rows], self.y[rows], self.weight[rows], self.row_numbers[rows]
        return dataclasses.replace(self, x=x, y=y, weight=weight, row_numbers=numbers)

    def further_rows(self, x: Any, y: Any, what: str) -> tuple[np.ndarray, np.ndarray]:
        """Rows and class numbers `[N]` of other labelled data, checked and scaled as the training rows were."""
        x = check_rows(in_order(x, self.columns, what), what, self.row_shape)
        if self.standardisation is None:
            check_kind(x, self.pixels, what)
        return network_rows(x, self.standardisation), check_labels(y, self.classes, len(x))[1]


def prepare(
    x: Any,
    y: Any,
    x_unlabeled: Any = None,
    sample_weight: Any = None,
    classes: Sequence[Any] | np.ndarray | None = None,
    standardize: bool = False,
    row_numbers: np.ndarray | None = None,
    columns: tuple[str, ...] | None = None,
    names: tuple[str, str] = ("X", "X_unlabeled"),
) -> Problem:
    """Checks the data, drops rows without weight, and scales the inputs.

    Args:
      columns: names of the columns, where x is an array; those of a data frame are found.
      names: what to call x and x_unlabeled in messages.
    """
    if isinstance(x_unlabeled, Unlabeled):
        x_unlabeled = x_unlabeled.rows
    columns = columns or column_names(x)
    x = check_rows(x, names[0])
    found, y = check_labels(y, classes, len(x))
    weight = check_weights(sample_weight, len(x))
    counted = weight > 0
    numbers = (np.arange(len(x)) if row_numbers is None else row_numbers)[counted]
    x, y, weight = x[counted], y[counted], weight[counted]
    u = None
    if x_unlabeled is not None and np.shape(x_unlabeled)[:1] != (0,):
        u = check_rows(in_order(x_unlabeled, columns, names[1]), names[1], x.shape[1:])
        check_kind(u, x.dtype == np.uint8, names[1])
    scaling = Standardisation.fit(*(part for part in (x, u) if part is not None)) if standardize else None
    scaled = network_rows(x, scaling), None if u is None else network_rows(u, scaling)
    return Problem(scaled[0], y, weight, scaled[1], found, scaling, numbers, columns)


def labelled_pair(validation: Any) -> tuple[Any, Any]:
    """A validation set `(x, y)`; refuses what is no pair."""
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise InputError("validation must be a pair, (x, y).")
    return validation[0], validation[1]
