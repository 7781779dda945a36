"""The trained thing: K members, and their mean probability."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np

from nu_ensembles.calibration import FittedCalibrator
from nu_ensembles.checks import check_array, check_whole, checked
from nu_ensembles.companion import Companion
from nu_ensembles.datasets.arrow_rows import ArrowRows
from nu_ensembles.engine.batches import padded_size
from nu_ensembles.engine.predict import predict_lanes
from nu_ensembles.ensemble.files import read_fields, write_ensemble
from nu_ensembles.ensemble.state import fields_of, state_of
from nu_ensembles.ensemble.taken_elsewhere import TakenElsewhere
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.temperature import scale_temperature
from nu_ensembles.models import Model
from nu_ensembles.models.sparse import for_sparse_rows
from nu_ensembles.models.wrapped import unwrapped
from nu_ensembles.problem import (
    Standardisation,
    as_table,
    check_kind,
    check_rows,
    network_rows,
    opened,
    refuse_forks,
    rows_in_parts,
)
from nu_ensembles.problem.pairs import as_sparse, fullest, pairs_of
from nu_ensembles.rows import LazyRows
from nu_ensembles.tables import Expected, RawTable, SparseRows, TableEncoding, rows_of

# Rows that are scaled and checked at a time: bounded memory however many rows come in. Of sparse rows, as pairs or made
# dense, as many as are so many values.
ROWS_PER_PASS, VALUES_PER_PASS = 1 << 16, 1 << 24


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Ensemble(TakenElsewhere):
    """K trained members.

    Attributes:
      model: the network, written for one member.
      params: what was trained; every leaf has a leading axis of members (of length 1, if these are the dropout masks
        of one network).
      model_state: the networks' other variables (batch statistics, say), with the same axis.
      classes: `[C]`, in the order of the probabilities.
      row_shape: shape of one input row, as the network gets it.
      standardisation: applied to the inputs first, or None.
      pixels: whether it was trained on bytes, which become x/255; then it predicts bytes only.
      columns: names of the input columns, by which data frames are matched; None where they had none.
      encoding: how a table becomes numbers, before they are scaled; None where it was trained on an array of numbers.
      temperature: applied to the mean probability; 1 leaves it as it is.
      calibrator: applied to the mean probability, or to the members' where it takes them; None leaves it as it is.
      companion: a forest that is pooled with the mean of the members, before they are calibrated; None for none.
      mask_keys: uint32 `[K, 2]`, the keys of the members' dropout masks, or None where each is a network of its own.
      training: how it was trained (method, seed, steps, …), plain values.
      history: one row of scores per evaluation on validation data.
    """

    model: Model
    params: Any
    model_state: Any
    classes: np.ndarray
    row_shape: tuple[int, ...]
    standardisation: Standardisation | None = None
    pixels: bool = False
    columns: tuple[str, ...] | None = None
    encoding: TableEncoding | None = None
    temperature: float = 1.0
    calibrator: FittedCalibrator | None = None
    companion: Companion | None = None
    mask_keys: np.ndarray | None = None
    training: dict[str, Any] = dataclasses.field(default_factory=dict)
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        if self.companion is not None and self.calibrator is not None and self.calibrator.takes_members:
            raise InputError(
                f"The calibrator {self.calibrator.name!r} is applied to members, and a companion is none; leave out "
                "one of the two."
            )

    @property
    def is_mean_of_members(self) -> bool:
        """Whether what it predicts is the mean of its members and nothing else: neither calibrated nor pooled."""
        return self.temperature == 1 and self.calibrator is None and self.companion is None

    def __repr__(self) -> str:
        """One line: the fields hold millions of numbers."""
        inside, _ = unwrapped(self.model)
        network = inside.spec.name if inside.spec else "a network of your own"
        method = f", method {self.training['method']}" if "method" in self.training else ""
        beside = "" if self.companion is None else f", pooled with a forest (weight {self.companion.weight:.2f})"
        return (
            f"<Ensemble: {self.n_members} members of {network}, {len(self.classes)} classes, rows of shape "
            f"{self.row_shape}{method}, temperature {self.temperature:.4g}{beside}>"
        )

    def __getstate__(self) -> dict[str, Any]:
        return state_of(self)

    def __setstate__(self, state: dict[str, Any]) -> None:
        for name, value in fields_of(state).items():
            object.__setattr__(self, name, value)

    @property
    def n_members(self) -> int:
        """K."""
        return self.n_networks if self.mask_keys is None else len(self.mask_keys)

    @property
    def input_shape(self) -> tuple[int, ...]:
        """Of one row as the user gives it: a table has as many columns as the training rows had."""
        return self.row_shape if self.encoding is None else (len(self.encoding.encoders),)

    def describe_columns(self) -> dict[str, str]:
        """What each column of the training table became, in words; nothing, if it was trained on an array."""
        scaling = self.standardisation
        return (
            {} if self.encoding is None else self.encoding.describe(scaling and scaling.mean, scaling and scaling.scale)
        )

    @property
    def n_networks(self) -> int:
        """How many networks there are: as many as members, unless those are dropout masks."""
        return jax.tree.leaves(self.params)[0].shape[0]

    @checked
    def predict_members(self, x: Any, batch_size: int | None = None) -> np.ndarray:
        """Each member's class probabilities, float32 `[K, N, C]`, as they are: what calibrates their mean is left out.

        Args:
          x: `[N, …]`, or a data frame with the columns of the training data; so in all that follows.
          batch_size: rows that go through the networks at once; None finds a number.
        """
        nothing = np.zeros((self.n_members, 0, len(self.classes)), np.float32)
        return np.concatenate([nothing, *(part for _, _, part in self._batches(self._rows(x), batch_size))], axis=1)

    @checked
    def predict_proba(self, x: Any, batch_size: int | None = None) -> np.ndarray:
        """The mean of the members' class probabilities, calibrated if the ensemble is: float32 `[N, C]`.

        With a companion it is pooled with that one's first. Goes through the rows in batches, in bounded memory.

        Args:
          x: `[N, …]`.
          batch_size: rows that go through the networks at once; None finds a number.
        """
        x = self._rows(x)
        result = np.empty((len(x), len(self.classes)), np.float32)
        for rows, inputs, members in self._batches(x, batch_size):
            mean = members.mean(axis=0, dtype=np.float64)
            if self.companion is not None:
                mean = self.companion.pooled(mean, inputs)
            of = self.calibrator
            result[rows] = mean if of is None else of.apply(members if of.takes_members else mean)
        return result if self.temperature == 1 else scale_temperature(result, self.temperature).astype(np.float32)

    @checked
    def predict(self, x: Any, batch_size: int | None = None) -> np.ndarray:
        """The most probable class of each row, `[N]`.

        Args:
          x: `[N, …]`.
          batch_size: rows that go through the networks at once; None finds a number.
        """
        return self.classes[self.predict_proba(x, batch_size).argmax(axis=1)]

    def _rows(self, x: Any) -> Any:
        """A table with its columns in order, or rows that are checked later, part by part, and may lie elsewhere."""
        x = rows_of(opened(x, "X", self.row_shape), "X")
        if isinstance(x, ArrowRows) and self.encoding is not None and self.encoding.named:
            return x.only(self.encoding.columns)
        if isinstance(x, LazyRows):
            return x
        if isinstance(x, SparseRows):
            return as_sparse(x, "X", self.input_shape[0] if len(self.input_shape) == 1 else 0)
        if self.encoding is not None:
            return self.encoding.matched(as_table(x, "X"))
        if isinstance(x, RawTable) and self.columns is not None:  # as version 2 kept them
            x = x.matched([Expected(name, "number") for name in self.columns], "X")
        return np.atleast_1d(check_array(x, "X"))

    def _batches(self, x: Any, batch_size: int | None) -> Iterator[tuple[slice, np.ndarray, np.ndarray]]:
        """Which rows, these rows as the networks get them, and the members' probabilities of them."""
        if self.encoding is None and not isinstance(x, LazyRows | SparseRows):
            check_rows(x[:0] if x.ndim > 1 else x, "X", self.row_shape, least_rows=0)
        batch_size = None if batch_size is None else check_whole(batch_size, "batch_size")
        refuse_forks()
        params, model_state = jax.device_put((self.params, self.model_state))
        sparse, scaling = self._network_for_sparse(x), self.standardisation
        at_once, width = ROWS_PER_PASS, None
        if isinstance(x, SparseRows):
            width = padded_size(fullest(x))  # of all parts, so that these share one compiled program
            at_once = max(1, VALUES_PER_PASS // (x.shape[1] if sparse is None else 2 * width))
        for start, part in rows_in_parts(x, self.encoding, at_once):
            inputs = self._network_rows(part, start) if sparse is None else pairs_of(part, scaling, width)
            how: dict[str, Any] = {"rows_at_once": batch_size, "mask_keys": self.mask_keys}
            for rows, members in predict_lanes(sparse or self.model, "float32", params, model_state, inputs, **how):
                yield slice(start + rows.start, start + rows.stop), inputs[rows], members

    def _network_for_sparse(self, x: Any) -> Model | None:
        """The network for the rows as pairs; None where they are not sparse, or are made dense, part by part."""
        scaling = self.standardisation
        keeps_zeros = scaling is None or not scaling.mean.any()
        if not isinstance(x, SparseRows) or self.encoding is not None or self.companion is not None or not keeps_zeros:
            return None
        return for_sparse_rows(self.model, x.shape[1])

    def _network_rows(self, part: Any, first_row: int = 0) -> np.ndarray:
        """Rows of `_rows` as the networks take them, checked: float32 or pixels."""
        if isinstance(part, SparseRows):
            part = part.dense()
            part = part if self.encoding is None else self.encoding.matched(as_table(part, "X"))
        if self.encoding is not None:
            part = self.encoding.numbers(part, "X", first_row=first_row)
        part = check_rows(part, "X", self.row_shape, first_row=first_row)
        if self.standardisation is None:
            check_kind(part, self.pixels, "X")
        return network_rows(part, self.standardisation)

    @checked
    def save(self, folder: str | Path, model_card: bool = False) -> None:
        """Writes the ensemble into a new folder, which appears whole or not at all.

        Args:
          folder: its path; refused if it exists.
          model_card: put a README.md beside, as model hubs show it.
        """
        write_ensemble(self, folder, model_card)

    @classmethod
    @checked
    def load(cls, folder: str | Path, model: Model | None = None) -> Ensemble:
        """Reads a saved ensemble, after checking every byte against its checksum.

        Args:
          folder: what `save` wrote.
          model: the network, needed when it is not one of the built-in ones.
        """
        return cls(**read_fields(folder, model))

    @checked
    def differences(
        self,
        model: Model,
        classes: np.ndarray,
        row_shape: tuple[int, ...],
        standardisation: Standardisation | None,
        pixels: bool,
        encoding: TableEncoding | None = None,
    ) -> list[str]:
        """Names of what would keep members of such networks out of this ensemble.

        Args:
          model: their network.
          classes: `[C]`, theirs in order.
          row_shape: the shape of one of their input rows.
          standardisation: what is applied to their inputs first, or None.
          pixels: whether they take bytes.
          encoding: what turns their tables into numbers, or None.
        """
        scaling = self.standardisation
        same = {
            "network": self.model == model,
            "classes": self.classes.tolist() == classes.tolist(),
            "input shape": self.row_shape == row_shape,
            "table of inputs": self.encoding == encoding,
            "input scaling": self.pixels == pixels
            and (standardisation is None if scaling is None else scaling.same_as(standardisation)),
        }
        return [name for name, equal in same.items() if not equal]

    @checked
    def with_members_of(self, other: Ensemble) -> Ensemble:
        """This ensemble followed by the members of another of the same network, classes and scaling.

        Args:
          other: the ensemble whose members come last.
        """
        if self.mask_keys is not None or other.mask_keys is not None:
            raise InputError("Members that are dropout masks of one network cannot be put together with others.")
        theirs = other.model, other.classes, other.row_shape, other.standardisation, other.pixels, other.encoding
        differing = self.differences(*theirs)
        if differing:
            raise InputError(f"Only ensembles of the same {' and '.join(differing)} can be put together.")
        mine, further = (self.params, self.model_state), (other.params, other.model_state)
        params, model_state = jax.tree.map(lambda a, b: np.concatenate([a, b]), mine, further)
        return dataclasses.replace(self, params=params, model_state=model_state, training=other.training)
