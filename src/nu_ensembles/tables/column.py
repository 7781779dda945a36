"""A column as a file or a data frame gives it: numbers, categories or dates, any of them with gaps.

Every source of tables (csv, parquet, pandas, polars, Arrow, arrays) ends in these; everything after knows only them.
"""

from __future__ import annotations

import dataclasses
import datetime
import re
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

import numpy as np

from nu_ensembles.errors import DataWarning, InputError

Kind = Literal["number", "category", "ordered", "date"]
# What a gap in dates is; a name, because NumPy makes a new one of each unit.
NO_DATE = np.datetime64("NaT", "us")
_YEAR_FIRST = re.compile(r"[0-9]{4}([-/])[0-9]{2}\1[0-9]{2}")
_YEAR_LAST = re.compile(r"([0-9]{1,2})\.([0-9]{1,2})\.([0-9]{4})(.*)")
_MONTH_OR_DAY = re.compile(r"[0-9]{1,2}/[0-9]{1,2}/([0-9]{2}|[0-9]{4})")
# A column of numbers with fewer different words among them than this is one with typing errors, …
FEW_WORDS = 20
# … unless the numbers are so few, and repeat so often, that they are levels, as in 0, 1, 2, 3+.
FEW_NUMBERS = 30
_WORDS = {"number": "numbers", "category": "text", "ordered": "ordered levels", "date": "dates"}


@dataclasses.dataclass(frozen=True, eq=False)
class RawColumn:
    """Values of one column.

    Attributes:
      kind: what they are.
      values: `[N]`; float64 for numbers (a gap is nan), datetime64[us] for dates (NaT), else int32 numbers of levels
        (-1).
      levels: what the numbers of levels stand for; in their order, if the kind is "ordered".
    """

    name: str
    kind: Kind
    values: np.ndarray
    levels: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.values)

    def __getitem__(self, rows: Any) -> RawColumn:
        return dataclasses.replace(self, values=self.values[rows])

    @property
    def gaps(self) -> np.ndarray:
        """Which rows have no value, bool `[N]`."""
        if self.kind == "number":
            return np.isnan(self.values)
        return np.isnat(self.values) if self.kind == "date" else self.values < 0

    def words(self) -> list[str | None]:
        """The values as text, None for a gap."""
        if self.kind == "number":
            return [None if value != value else plain_number(value) for value in self.values.tolist()]
        if self.kind == "date":
            return [None if gap else plain_date(value) for value, gap in zip(self.values, self.gaps, strict=True)]
        return [self.levels[code] if code >= 0 else None for code in self.values.tolist()]

    def as_kind(self, kind: Kind, levels: Sequence[str], what: str) -> RawColumn:
        """The same values as another kind: of a file that has "3" where the training rows had the text "3+".

        Args:
          levels: of an ordered column; others become gaps.
          what: to call the rows in messages.

        Raises:
          InputError: a value cannot be taken so.
        """
        if kind == "ordered":
            return encoded(self.name, self.words(), levels)
        if kind == self.kind:
            return self
        if kind == "category":
            return encoded(self.name, self.words())
        if self.gaps.all():
            nothing = np.full(len(self), np.nan) if kind == "number" else np.full(len(self), NO_DATE)
            return RawColumn(self.name, kind, nothing)
        parse = number_from_text if kind == "number" else date_from_text
        if self.kind in ("category", "ordered"):
            found = self._parsed(kind, parse)
            if found is not None:
                return found
        first = next(word for word in self.words() if word is not None and parse(word) is None)
        raise InputError(
            f"The column {self.name!r} of {what} holds {_WORDS[self.kind]} ({first[:40]!r}) where {_WORDS[kind]} were "
            "expected; correct it, or say in column_types what the column is."
        )

    def _parsed(self, kind: Kind, parse: Callable[[str], Any]) -> RawColumn | None:
        """A column of text whose levels all mean numbers, or dates."""
        used = np.unique(self.values[self.values >= 0])
        meant = {code: parse(self.levels[code]) for code in used.tolist()}
        if None in meant.values():
            return None
        gap, dtype = (np.nan, np.float64) if kind == "number" else (NO_DATE, "datetime64[us]")
        table = np.array([*(meant.get(code, gap) for code in range(len(self.levels))), gap], dtype)
        return RawColumn(self.name, kind, table[self.values])


def encoded(name: str, words: Iterable[str | None], levels: Sequence[str] | None = None) -> RawColumn:
    """A column of text; its levels in the order of their first row, or the given ones in theirs."""
    known: dict[str, int] = {} if levels is None else {level: code for code, level in enumerate(levels)}
    if levels is None:
        codes = [-1 if word is None else known.setdefault(word, len(known)) for word in words]
        return RawColumn(name, "category", np.array(codes, np.int32), tuple(known))
    codes = [-1 if word is None else known.get(word, -1) for word in words]
    return RawColumn(name, "ordered", np.array(codes, np.int32), tuple(levels))


def text_or_dates(name: str, words: Iterable[str | None]) -> RawColumn:
    """A column of text; of dates, if every word is one."""
    column = encoded(name, words)
    if column.levels and all(date_from_text(word) is not None for word in column.levels):
        return column.as_kind("date", (), name)
    return column


def declared_as(column: RawColumn, kind: Kind, levels: Sequence[str], what: str) -> RawColumn:
    """The column as what it is said to be; levels of an ordered one that nobody named are noted, and become gaps.

    Args:
      what: to call the rows in messages.
    """
    found = column.as_kind(kind, levels, what)
    if kind == "ordered" and found.gaps.sum() > column.gaps.sum():
        others = [word for word in dict.fromkeys(column.words()) if word is not None and word not in levels]
        shown = ", ".join(map(repr, others[:3])) + (", …" if len(others) > 3 else "")
        note = f"The column {column.name!r} of {what} has levels that were not declared, which are taken as gaps"
        warnings.warn(f"{note}: {shown}.", DataWarning, stacklevel=3)
    return found


def mixes_numbers(counts: np.ndarray, is_number: np.ndarray) -> bool:
    """Whether a column of words looks like numbers with typing errors.

    Args:
      counts: `[L]`, rows of each word.
      is_number: `[L]`, which words mean numbers.
    """
    n_numbers, n_different = int(counts[is_number].sum()), int(is_number.sum())
    are_levels = n_different <= FEW_NUMBERS and 2 * n_different <= n_numbers
    few_words = 2 * n_numbers >= counts.sum() and 0 < (~is_number).sum() < FEW_WORDS
    return few_words and not are_levels


def day_or_month_first(text: str) -> bool:
    """Whether it is like 1/2/2024, which means one day here and another there."""
    return _MONTH_OR_DAY.match(text) is not None


def stacked_columns(*columns: RawColumn) -> RawColumn:
    """The rows of columns of the same kind, one column after another."""
    first = columns[0]
    if first.kind != "category":
        return dataclasses.replace(first, values=np.concatenate([each.values for each in columns]))
    codes: dict[str, int] = {}
    parts = []
    for each in columns:
        ours = np.array([*(codes.setdefault(level, len(codes)) for level in each.levels), -1], np.int32)
        parts.append(ours[each.values])
    return RawColumn(first.name, "category", np.concatenate(parts), tuple(codes))


def plain_number(value: float) -> str:
    """3 for 3.0: the numbers 3 and 3.0 are one level, whether a gap made floats of the column or not."""
    return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)


def plain_date(value: np.datetime64) -> str:
    """2024-01-31, or 2024-01-31 18:30:00 where there is a time."""
    return str(value).replace("T", " ").removesuffix(".000000").removesuffix(" 00:00:00")


def number_from_text(text: str) -> float | None:
    """The number that a text is; None for all others. Python would also take "2024_01" for the number 202401."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def date_from_text(text: str) -> np.datetime64 | None:
    """The date, and time in UTC, of a text such as 2024-01-31, 2024/01/31 18:30 or 31.1.2024; None for all others.

    Dates such as 1/2/2024 are none, because they mean one day here and another there.
    """
    year_last = _YEAR_LAST.fullmatch(text)
    if year_last:
        day, month, year, time = year_last.groups()
        text = f"{year}-{month:0>2}-{day:0>2}{time}"
    # Python takes "20240131" and "2024-W05" as well, which are as often numbers and names.
    if not _YEAR_FIRST.match(text):
        return None
    try:
        return as_date(datetime.datetime.fromisoformat(text[:10].replace("/", "-") + text[10:]))
    except ValueError:
        return None


def as_date(value: datetime.date | np.datetime64) -> np.datetime64:
    """A date or time of Python's or NumPy's; one with a time zone as its time in UTC."""
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[us]")
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return np.datetime64(value, "us")
