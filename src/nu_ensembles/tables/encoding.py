"""From a table as it is to numbers: every column by its kind, fitted on labelled and unlabelled rows together.

What the columns were, what they became and what was left out stays with the model, so that later tables are matched by
name and encoded alike. Scaling is a step of its own, after this one (`problem/preprocessing.py`).
"""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from nu_ensembles.contents import flag, listing, parsed, stored
from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.rows import LazyRows
from nu_ensembles.tables.column import RawColumn, day_or_month_first
from nu_ensembles.tables.encoders import (
    FEWEST_ROWS,
    CategoryEncoder,
    DateEncoder,
    Encoder,
    LeftOut,
    NumberEncoder,
    OrderedEncoder,
    encoder_from_json,
    encoder_to_json,
)
from nu_ensembles.tables.raw_table import Expected, RawTable, listed
from nu_ensembles.tables.summaries import SAMPLE, ColumnSummary, parts_of, summaries

# Text with more levels than this is left out, if none of them is frequent.
FEW_LEVELS = 10
# In fewer rows a column may go up by one each time by chance.
MANY_ROWS = 10


@dataclasses.dataclass(frozen=True)
class TableEncoding:
    """An encoder for each column of the training rows.

    Attributes:
      encoders: in the order of the columns.
      named: whether the columns had names, by which those of later tables are found.
    """

    encoders: tuple[Encoder, ...]
    named: bool

    @classmethod
    def fit(
        cls, labelled: RawTable, *unlabelled: RawTable | LazyRows, names: tuple[str, str] = ("X", "X_unlabeled")
    ) -> tuple[TableEncoding, list[np.ndarray]]:
        """Over the rows of all tables together; a column without any value in the labelled rows is left out.

        Args:
          unlabelled: tables, or rows that memory does not hold.
          names: what to call the labelled and the unlabelled tables in messages.

        Returns:
          the encoding, and the tables that are in memory as it encodes them.
        """
        expected = [Expected(part.name, None if part.gaps.all() else part.kind, part.levels) for part in labelled.parts]

        def matched(table: RawTable) -> RawTable:
            return table.matched(expected, names[1], named=labelled.named)

        tables = [labelled.matched(expected, names[0], named=labelled.named)]
        tables += [matched(table) for table in unlabelled if isinstance(table, RawTable)]
        lazily = [table for table in unlabelled if isinstance(table, LazyRows)]
        sample = None
        if lazily:
            every = max(1, len(lazily[0]) // SAMPLE)
            sample = matched(lazily[0][::every])
        found = summaries(parts_of([*tables, *lazily], matched), sample)
        empty = LeftOut(name="", reason="it has no value in any labelled row")
        encoders = tuple(
            _fitted(found[name]) if name in found else dataclasses.replace(empty, name=name) for name in labelled.names
        )
        fitted = cls(encoders, labelled.named)
        left_out = fitted.left_out
        reasons = "; ".join(f"{name!r} ({reason})" for name, reason in list(left_out.items())[:5])
        more = f" and {len(left_out) - 5} more" if len(left_out) > 5 else ""
        if len(left_out) == len(encoders):
            raise InputError(f"{names[0]} has no column to learn from: {reasons}{more}; give others.")
        if left_out:
            warnings.warn(f"Columns of {names[0]} are left out: {reasons}{more}.", DataWarning, stacklevel=2)
        counters = [part.name for part in tables[0].parts if labelled.named and _counts_rows(part)]
        if counters:
            note = f"{names[0]} has a column that counts the rows, {listed(counters)}"
            warnings.warn(f"{note}; leave it out if it is a mere number.", DataWarning, stacklevel=2)
        called = [names[0], *[names[1]] * (len(tables) - 1)]
        return fitted, [fitted.numbers(table, name) for table, name in zip(tables, called, strict=True)]

    @property
    def expected(self) -> list[Expected]:
        """What later tables must have."""
        return [Expected(each.name, each.kind, each.levels) for each in self.encoders]

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that later tables must have."""
        return tuple(each.name for each in self.encoders if each.kind is not None)

    @property
    def left_out(self) -> dict[str, str]:
        """Columns that are not used, and why."""
        return {each.name: each.reason for each in self.encoders if isinstance(each, LeftOut)}

    @property
    def outputs(self) -> tuple[str, ...]:
        """Names of the numbers that a row becomes."""
        return tuple(output for each in self.encoders for output in each.outputs)

    @property
    def as_they_are(self) -> np.ndarray:
        """Which of them are not to be scaled, bool `[F]`."""
        return np.array([stays for each in self.encoders for stays in each.as_they_are], bool)

    def __call__(self, table: RawTable, what: str = "X") -> np.ndarray:
        """Rows as numbers, float64 `[N, F]`.

        Args:
          what: to call the table in messages.

        Raises:
          InputError: a column is missing, holds something else than it did, or is infinite somewhere.
        """
        return self.numbers(self.matched(table, what), what)

    def matched(self, table: RawTable, what: str = "X") -> RawTable:
        """The columns in use, found by name or place; the first step, for all rows at once."""
        found = table.matched(self.expected, what, named=self.named)
        filled = [
            encoder.name
            for encoder, part in self._pairs(found)
            if isinstance(encoder, NumberEncoder | DateEncoder) and not encoder.n_gaps and part.gaps.any()
        ]
        if filled:
            known = "where the training rows had none, filled with the median"
            note = f"{what} has gaps (or new levels) {known}: {listed(filled)}."
            warnings.warn(note, DataWarning, stacklevel=2)
        # Which words they are is left to reports: a sentence for each would never end where a model is served.
        new = [
            each.name for each, part in self._pairs(found) if isinstance(each, CategoryEncoder) and each.is_new(part)
        ]
        if new:
            note = f"{what} has words that the training rows had not, which are taken as unknown: {listed(new)}."
            warnings.warn(note, DataWarning, stacklevel=2)
        return found

    def numbers(self, matched: RawTable, what: str = "X", first_row: int = 0) -> np.ndarray:
        """Matched rows as numbers, float64 `[N, F]`; the second step, for as many rows at a time as fit.

        Args:
          first_row: the number of the first row in what the user gave, for errors.
        """
        pairs = self._pairs(matched)
        for _, part in pairs:
            _refuse_infinity(part, what, first_row)
        return np.concatenate([encoder(part) for encoder, part in pairs], axis=1)

    def _pairs(self, matched: RawTable) -> list[tuple[Any, RawColumn]]:
        """The encoders in use, each with its column."""
        parts = dict(zip(matched.names, matched.parts, strict=True))
        return [(each, parts[each.name]) for each in self.encoders if each.kind is not None]

    def describe(self, mean: np.ndarray | None = None, scale: np.ndarray | None = None) -> dict[str, str]:
        """What became of each column, in words.

        Args:
          mean, scale: of the numbers that a row becomes, where they are scaled afterwards.
        """
        words, at = {}, 0
        for each in self.encoders:
            words[each.name] = each.in_words()
            if mean is not None and scale is not None and isinstance(each, NumberEncoder | DateEncoder):
                centred = f"{mean[at]:.4g} taken off, " if mean[at] else ""
                words[each.name] += f"; {centred}divided by {scale[at]:.4g}"
            at += len(each.outputs)
        return words

    def to_json(self) -> dict[str, Any]:
        return {"named": self.named, "columns": [encoder_to_json(each) for each in self.encoders]}

    @classmethod
    def from_json(cls, entry: Mapping[str, Any], where: str = "The table encoding") -> TableEncoding:
        """From what `to_json` gave.

        Args:
          where: the file that it stands in, to begin sentences with.
        """
        found = parsed(_StoredEncoding, entry, where)
        return cls(found.columns, found.named)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StoredEncoding:
    """What `TableEncoding.to_json` wrote."""

    named: bool = stored(flag)
    columns: tuple[Encoder, ...] = stored(listing(encoder_from_json, least=1))

    def __post_init__(self) -> None:
        names = [each.name for each in self.columns]
        if len(set(names)) < len(names):
            raise InputError("two of its columns have the same name; restore it from a copy.")


def _fitted(column: ColumnSummary) -> Encoder:
    if column.kind == "number":
        return NumberEncoder.fit(column)
    if column.kind == "ordered":
        return OrderedEncoder.fit(column)
    if column.kind == "date":
        return DateEncoder.fit(column)
    n_levels, n_filled = len(column.counts), column.n_rows - column.n_gaps
    if n_levels == 1 and n_filled == column.n_rows:
        return LeftOut(column.name, "it is the same in every row")
    first = next(iter(column.counts), "")
    if n_levels > FEW_LEVELS and day_or_month_first(first):
        return LeftOut(
            column.name,
            f"it holds dates such as {first}, which mean one day here and another there; write them as 2024-01-31",
        )
    if n_levels == n_filled and n_levels > 1:
        return LeftOut(column.name, "it is text with as many levels as rows, as an identifier is")
    if n_levels > FEW_LEVELS and max(column.counts.values()) < FEWEST_ROWS:
        return LeftOut(column.name, f"it is text whose {n_levels} levels hardly repeat")
    return CategoryEncoder.fit(column)


def _counts_rows(column: RawColumn) -> bool:
    """Whether it goes up by one from row to row, as row numbers and many identifiers do."""
    return column.kind == "number" and len(column) >= MANY_ROWS and bool((np.diff(column.values) == 1).all())


def _refuse_infinity(column: RawColumn, what: str, first_row: int) -> None:
    if column.kind != "number":
        return
    infinite = np.isinf(column.values)
    if infinite.any():
        raise InputError(
            f"{what} contains infinity: {int(infinite.sum())} value(s) not finite in the column {column.name!r}, the "
            f"first in row {first_row + int(np.argmax(infinite))}; correct or remove them first."
        )
