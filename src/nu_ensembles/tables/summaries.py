"""What an encoder must know of a column: counts, gaps, ends and middle, gathered some rows at a time.

The middle (for the median) of a column that memory does not hold is found by two looks at it: a sample says between
which values it lies, and the second look counts what is below and keeps what is between. It is exact.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from nu_ensembles.tables.column import Kind, RawColumn
from nu_ensembles.tables.raw_table import RawTable

# Rows of the sample; of a column between 0.7 % above and below its middle are kept.
SAMPLE, DEVIATIONS = 1 << 17, 5.0

Parts = Callable[[], Iterator[RawTable]]


@dataclasses.dataclass(frozen=True)
class ColumnSummary:
    """What is known of a column.

    Attributes:
      levels: of an ordered column.
      n_rows, n_gaps: how many rows it has, and how many without a value.
      counts: rows by level, of a category, in the order of their first row.
      middle: the two values in the middle (the same one twice, if their number is odd), of other kinds.
      ends: the least and the greatest of them.
      varies: which parts of dates differ between rows: "day", "week", "year".
    """

    name: str
    kind: Kind
    levels: tuple[str, ...]
    n_rows: int
    n_gaps: int
    counts: dict[str, int]
    middle: np.ndarray
    ends: np.ndarray
    varies: frozenset[str]


def summary_of(column: RawColumn | ColumnSummary) -> ColumnSummary:
    """Of a column in memory."""
    if isinstance(column, ColumnSummary):
        return column
    return summaries(lambda: iter([RawTable((column,))]))[column.name]


def summaries(parts: Parts, sample: RawTable | None = None) -> dict[str, ColumnSummary]:
    """Of every column of a table.

    Args:
      parts: gives the table some rows at a time, whenever it is asked; categories may come with other levels each time.
      sample: some of its rows, where memory does not hold all.
    """
    sums: list[_Sums] = []
    for table in parts():
        sums = sums or [_Sums(part) for part in table.parts]
        for each, part in zip(sums, table.parts, strict=True):
            each.add(part)
    searched = [each for each in sums if each.kind != "category" and each.n_filled]
    deviations = DEVIATIONS
    while searched:
        middles = {each.name: _Middle(each.n_filled, _sampled(sample, each.name), deviations) for each in searched}
        for table in parts():
            for part in table.parts:
                if part.name in middles:
                    middles[part.name].add(_as_numbers(part))
        for each in searched:
            each.middle = middles[each.name].found()
        searched = [each for each in searched if each.middle is None]
        deviations *= 8
    return {each.name: each.summary() for each in sums}


class _Sums:
    """A column's counts so far."""

    def __init__(self, column: RawColumn) -> None:
        self.name, self.kind, self.levels = column.name, column.kind, column.levels
        self.n_rows = self.n_gaps = 0
        self.counts: dict[str, int] = {}
        self.ends: list[Any] = []
        self.firsts: dict[str, Any] = {}
        self.varies: set[str] = set()
        self.middle: np.ndarray | None = None

    @property
    def n_filled(self) -> int:
        return self.n_rows - self.n_gaps

    def add(self, column: RawColumn) -> None:
        gaps = column.gaps
        self.n_rows += len(column)
        self.n_gaps += int(gaps.sum())
        if column.kind == "category":
            counts = np.bincount(column.values[~gaps], minlength=len(column.levels))
            for code in np.flatnonzero(counts):
                level = column.levels[code]
                self.counts[level] = self.counts.get(level, 0) + int(counts[code])
            return
        filled = column.values[~gaps]
        if len(filled):
            self.ends = [min([*self.ends[:1], filled.min()]), max([*self.ends[1:], filled.max()])]
        if column.kind == "date" and len(filled):
            for name, place in _places_in_cycles(filled).items():
                first = self.firsts.setdefault(name, place[0])
                if name not in self.varies and (place != first).any():
                    self.varies.add(name)

    def summary(self) -> ColumnSummary:
        is_date = self.kind == "date"
        dtype: Any = "datetime64[us]" if is_date else np.float64
        middle = np.array([], np.int64 if is_date else np.float64) if self.middle is None else self.middle
        return ColumnSummary(
            self.name,
            self.kind,
            self.levels if self.kind == "ordered" else (),
            self.n_rows,
            self.n_gaps,
            self.counts,
            middle.astype(dtype),
            np.array(self.ends, dtype),
            frozenset(self.varies),
        )


def _places_in_cycles(dates: np.ndarray) -> dict[str, np.ndarray]:
    """The time of day, the day of the month and the month of dates."""
    days, months = dates.astype("datetime64[D]"), dates.astype("datetime64[M]")
    return {"day": dates - days, "week": days - months.astype("datetime64[D]"), "year": months.astype(int) % 12}


def _as_numbers(column: RawColumn) -> np.ndarray:
    """Its values, without gaps, as numbers of the same order."""
    filled = column.values[~column.gaps]
    return filled.astype(np.int64) if column.kind == "date" else filled.astype(np.float64)


def _sampled(sample: RawTable | None, name: str) -> np.ndarray | None:
    """A column's values in the sample in their order; None without one, or where it has too few."""
    if sample is None:
        return None
    values = _as_numbers(next(part for part in sample.parts if part.name == name))
    return np.sort(values) if len(values) else None


class _Middle:
    """Looks for the values at the two middle ranks of n, where they lie by a sample; without one it keeps all."""

    def __init__(self, n: int, sample: np.ndarray | None, deviations: float) -> None:
        self.ranks = (n - 1) // 2, n // 2
        self.low = self.high = None
        if sample is not None:
            margin = 0.5 * deviations / len(sample) ** 0.5
            first, last = (int(len(sample) * share) for share in (0.5 - margin, 0.5 + margin))
            if first >= 0 and last < len(sample):
                self.low, self.high = sample[first], sample[last]
        self.n_below = self.n_low = self.n_high = 0
        self.inside: list[np.ndarray] = []

    def add(self, values: np.ndarray) -> None:
        if self.low is None or self.high is None:
            self.inside.append(values)
            return
        self.n_below += int(np.count_nonzero(values < self.low))
        self.n_low += int(np.count_nonzero(values == self.low))
        if self.high > self.low:
            self.n_high += int(np.count_nonzero(values == self.high))
            self.inside.append(values[(values > self.low) & (values < self.high)])

    def found(self) -> np.ndarray | None:
        """The two values; None where the sample was misleading."""
        inside = np.concatenate(self.inside) if self.inside else np.zeros(0)
        ranks = [rank - self.n_below for rank in self.ranks]
        if min(ranks) < 0 or max(ranks) >= self.n_low + len(inside) + self.n_high:
            return None
        places = [rank - self.n_low for rank in ranks]
        within = sorted({place for place in places if 0 <= place < len(inside)})
        if within:
            inside = np.partition(inside, within)
        return np.array([self.low if p < 0 else inside[p] if p < len(inside) else self.high for p in places])


def parts_of(tables: Iterable[RawTable | Any], matched: Callable[[RawTable], RawTable]) -> Parts:
    """Tables one after another as parts of one; those that are not in memory give theirs by `in_parts`."""
    kept: Sequence[Any] = list(tables)

    def parts() -> Iterator[RawTable]:
        for table in kept:
            if isinstance(table, RawTable):
                yield table
            else:
                yield from (matched(part) for part in table.in_parts())

    return parts
