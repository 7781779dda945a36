"""Rows as they came: named columns of numbers, categories and dates, before anything is made of them."""

from __future__ import annotations

import dataclasses
import difflib
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.tables.column import (
    Kind,
    RawColumn,
    declared_as,
    mixes_numbers,
    number_from_text,
    stacked_columns,
)

# Names that a sentence lists; a table may have thousands.
MOST_LISTED = 5


@dataclasses.dataclass(frozen=True)
class Expected:
    """What a column of the training rows was; of no kind, if it was left out and need not be there."""

    name: str
    kind: Kind | None
    levels: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True, eq=False)
class RawTable:
    """Columns of equal length.

    Attributes:
      parts: the columns.
      named: whether their names are the user's; else they are x0, x1, … and columns are told by their place.
    """

    parts: tuple[RawColumn, ...]
    named: bool = True

    @classmethod
    def of_numbers(cls, x: np.ndarray, names: Sequence[str] | None = None) -> RawTable:
        """Of an array `[N, F]`; the columns are views of it, where it holds float64."""
        called = [f"x{number}" for number in range(x.shape[1])] if names is None else names
        x = np.asarray(x, np.float64)
        parts = (RawColumn(name, "number", x[:, at]) for at, name in enumerate(called))
        return cls(tuple(parts), named=names is not None)

    @classmethod
    def stacked(cls, tables: Sequence[RawTable]) -> RawTable:
        """The rows of tables with the same columns, one table after another."""
        parts = (stacked_columns(*columns) for columns in zip(*(table.parts for table in tables), strict=True))
        return cls(tuple(parts), tables[0].named)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(part.name for part in self.parts)

    @property
    def shape(self) -> tuple[int, int]:
        return len(self), len(self.parts)

    @property
    def ndim(self) -> int:
        return 2

    def __len__(self) -> int:
        return len(self.parts[0]) if self.parts else 0

    def __getitem__(self, rows: Any) -> RawTable:
        """The rows of a slice, of numbers or of a mask."""
        if isinstance(rows, tuple):  # [rows, ...], as scikit-learn writes it
            rows = rows[0]
        return dataclasses.replace(self, parts=tuple(part[rows] for part in self.parts))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The numbers `[N, F]`; refuses what is none."""
        words = [part.name for part in self.parts if part.kind != "number"]
        if words:
            raise InputError(f"The columns {listed(words)} hold no numbers; this needs numbers in all of them.")
        values = np.stack([part.values for part in self.parts], axis=1)
        return values if dtype is None else values.astype(dtype)

    def only(self, names: Iterable[str]) -> RawTable:
        """These columns, in this order."""
        by_name = dict(zip(self.names, self.parts, strict=True))
        return dataclasses.replace(self, parts=tuple(by_name[name] for name in names))

    def declared(self, kinds: Mapping[str, tuple[Kind, tuple[str, ...]]], what: str) -> RawTable:
        """Columns as the kinds (and levels, in their order) that they are said to have."""
        unknown = [name for name in kinds if name not in self.names]
        if unknown:
            raise InputError(f"{what} has no column {unknown[0]!r} to declare{_near(unknown[0], self.names)}.")
        parts = (declared_as(part, *kinds[part.name], what) if part.name in kinds else part for part in self.parts)
        return dataclasses.replace(self, parts=tuple(parts))

    def note_numbers(self, what: str) -> None:
        """Says of columns of text that they look like numbers with typing errors, for which csv files are refused."""
        for column in self.parts:
            if column.kind != "category":
                continue
            counts = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
            is_number = np.array([number_from_text(word) is not None for word in column.levels], bool)
            if mixes_numbers(counts, is_number):
                word, n = column.levels[int(np.argmin(is_number))], int(counts[is_number].sum())
                warnings.warn(
                    f"The column {column.name!r} of {what} is text, though {n} of {counts.sum()} values are numbers "
                    f"({word[:40]!r} is none); turn it into numbers, or declare it a category.",
                    DataWarning,
                    stacklevel=2,
                )

    def matched(self, expected: Sequence[Expected], what: str, *, named: bool = True) -> RawTable:
        """The columns of the training rows, found by name in any order, or by place where either side has no names.

        Args:
          what: to call these rows in messages.
          named: whether the training rows had names.

        Raises:
          InputError: a column is missing, or holds something else than it did.
        """
        if named and self.named:
            needed = [each.name for each in expected if each.kind is not None]
            refuse_missing(needed, self.names, what)
            known = {each.name for each in expected}
            extra = [name for name in self.names if name not in known]
            if extra:
                note = f"{what} has columns that the training rows had not, which are ignored: {listed(extra)}."
                warnings.warn(note, DataWarning, stacklevel=2)
            found = dict(zip(self.names, self.parts, strict=True))
        elif len(self.parts) == len(expected):
            found = {each.name: part for each, part in zip(expected, self.parts, strict=True)}
        else:
            raise InputError(
                f"{what} has rows of shape ({len(self.parts)},) where ({len(expected)},) is expected; give it the same "
                "columns in the same order as the training data."
            )
        same = [
            dataclasses.replace(found[each.name], name=each.name).as_kind(each.kind, each.levels, what)
            for each in expected
            if each.kind is not None
        ]
        return RawTable(tuple(same), named)


def refuse_missing(names: Sequence[str], found: Sequence[str], what: str) -> None:
    """Names the columns that are not there, and what there is with nearly the same name."""
    missing = [name for name in names if name not in found]
    if not missing:
        return
    extra = [name for name in found if name not in names]
    hint = _near(missing[0], extra) or (f" (it has {listed(extra)}, which those had not)" if extra else "")
    raise InputError(
        f"{what} lacks the column(s) {listed(missing)} of the training rows{hint}; add what is missing, or rename it."
    )


def refuse_repeated(names: Sequence[str], what: str) -> None:
    """Columns that cannot be told apart."""
    repeated = [name for name, count in Counter(names).items() if count > 1]
    if repeated:
        raise InputError(f"More than one column of {what} is named {listed(repeated)}; rename all but one.")


def listed(names: Sequence[str]) -> str:
    """Names for a sentence."""
    shown = ", ".join(map(repr, names[:MOST_LISTED]))
    return shown if len(names) <= MOST_LISTED else f"{shown}, … ({len(names)} in all)"


def _near(name: str, names: Iterable[str]) -> str:
    """The nearest of the names; "Age" is nearer to "age" than difflib alone knows."""
    by_lower = {each.lower(): each for each in names}
    near = difflib.get_close_matches(name.lower(), by_lower, n=1)
    return f" (is it {by_lower[near[0]]!r}?)" if near else ""
