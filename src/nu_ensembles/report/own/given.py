"""What a report on a user's own rows is drawn from: predictions, labels where there are any, and words about both."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from nu_ensembles.errors import InputError


class Expectation(Protocol):
    """What is expected on unlabelled rows: `deployment.DeploymentExpectation`, or anything that says so in words."""

    def sentence(self) -> str: ...
    @property
    def limit(self) -> str: ...


@dataclasses.dataclass(frozen=True, eq=False)
class Training:
    """How the ensemble came about.

    Attributes:
      verdict: the sentence of the fit.
      facts: name -> value, what else to tell.
      columns: what each column of a table became, in words.
      search: of β and steps, for its picture; None where nothing was searched.
      shift: a sentence on whether the unlabelled training rows differ from the labelled ones; empty for none.
      expected: what was expected on the unlabelled rows of the training, or None.
    """

    verdict: str = ""
    facts: Mapping[str, str] = dataclasses.field(default_factory=dict)
    columns: Mapping[str, str] = dataclasses.field(default_factory=dict)
    search: Any = None
    shift: str = ""
    expected: Expectation | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Given:
    """What a page is drawn from.

    Attributes:
      name: what to call the rows: a file's name.
      classes: `[C]`, in words.
      members: `[K, N, C]`, each member's probabilities.
      probabilities: `[N, C]`, the ensemble's own, calibrated if it is.
      labels: class numbers `[N]`, -1 where a row has no label; None where none has.
      row_names: what to call each row; None for numbers from 1 on.
      images: `[N, H, W, C]`, where the rows are images.
      cells: gives for some row numbers the values of a few columns, by name; None where there are none to show.
      strange: row number -> what is unlike the training rows in it, the strangest first; None where nobody looked.
      n_strange: how many rows are so.
      training: how the ensemble came about.
      beside: what becomes of the mean of the members, in words ("calibrated by temperature"); empty for nothing.
    """

    name: str
    classes: Sequence[str]
    members: np.ndarray
    probabilities: np.ndarray
    labels: np.ndarray | None = None
    row_names: Sequence[str] | None = None
    images: np.ndarray | None = None
    cells: Callable[[Sequence[int]], Mapping[str, Sequence[str]]] | None = None
    strange: Mapping[int, str] | None = None
    n_strange: int = 0
    training: Training = dataclasses.field(default_factory=Training)
    beside: str = ""

    def __post_init__(self) -> None:
        if not len(self.probabilities):
            raise InputError(f"{self.name} has no rows, so there is nothing to report on; give some.")

    @property
    def n_rows(self) -> int:
        return len(self.probabilities)

    @property
    def is_labelled(self) -> bool:
        return self.labels is not None and bool((self.labels >= 0).any())

    @functools.cached_property
    def labelled(self) -> np.ndarray:
        """Numbers of the rows that have a label."""
        return np.flatnonzero(self.labels >= 0) if self.labels is not None else np.zeros(0, int)

    @functools.cached_property
    def confidence(self) -> np.ndarray:
        return self.probabilities.max(axis=1)

    @functools.cached_property
    def predicted(self) -> np.ndarray:
        return self.probabilities.argmax(axis=1)

    @functools.cached_property
    def agreeing(self) -> np.ndarray:
        """How many members predict what the ensemble predicts, `[N]`."""
        return (self.members.argmax(axis=2) == self.predicted).sum(axis=0)

    def row_name(self, row: int) -> str:
        return str(row + 1) if self.row_names is None else str(self.row_names[row])
