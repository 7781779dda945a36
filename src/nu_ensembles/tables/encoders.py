"""What becomes of one column: fitted once, applied to every later table, kept as JSON.

Each encoder knows the columns of numbers that it makes (`outputs`), which of them are not to be scaled (`as_they_are`:
indicators of 0 and 1, places in a cycle), and how to say in words what it does.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from nu_ensembles.contents import Check, listing, mapping, number, one_of, plain, text, unfit, whole
from nu_ensembles.tables.column import Kind, RawColumn
from nu_ensembles.tables.raw_table import listed
from nu_ensembles.tables.summaries import ColumnSummary, summary_of

# A level in fewer rows is pooled with others of its kind, and so is everything beyond the most frequent ones.
FEWEST_ROWS = 3
MOST_LEVELS = 100
_DAY = np.timedelta64(1, "D")
# Cycles of dates, in days, and how far sine and cosine go: the day of the week means nothing more often than the time
# of the year.
CYCLES = {"day": (1.0, 1.0), "week": (7.0, 0.5), "year": (365.2425, 1.0)}


@dataclasses.dataclass(frozen=True)
class NumberEncoder:
    """A number as it is; a gap is filled with the median, and marked if the fitted rows had any."""

    name: str
    fill: float
    n_gaps: int

    kind: ClassVar[Kind | None] = "number"

    @classmethod
    def fit(cls, column: RawColumn | ColumnSummary) -> NumberEncoder:
        found = summary_of(column)
        return cls(found.name, float(np.median(found.middle)), found.n_gaps)

    @property
    def levels(self) -> tuple[str, ...]:
        return ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.name, *([f"{self.name} is missing"] if self.n_gaps else []))

    @property
    def as_they_are(self) -> tuple[bool, ...]:
        return (False, True)[: len(self.outputs)]

    def __call__(self, column: RawColumn) -> np.ndarray:
        gaps = column.gaps
        filled = np.where(gaps, self.fill, column.values)
        return np.stack([filled, gaps] if self.n_gaps else [filled], axis=1)

    def in_words(self) -> str:
        return f"number{_gaps_in_words(self.n_gaps, f'the median, {self.fill:.6g}')}"


@dataclasses.dataclass(frozen=True)
class OrderedEncoder(NumberEncoder):
    """Ordered levels as 0, 1, 2, …; a gap, or a level that nobody declared, is filled with the median and marked."""

    order: tuple[str, ...]

    kind: ClassVar[Kind | None] = "ordered"

    @classmethod
    def fit(cls, column: RawColumn | ColumnSummary) -> OrderedEncoder:
        found = summary_of(column)
        return cls(found.name, float(np.median(found.middle)), found.n_gaps, found.levels)

    @property
    def levels(self) -> tuple[str, ...]:
        return self.order

    def in_words(self) -> str:
        words = f"ordered, as 0 to {len(self.order) - 1}: {' < '.join(self.order)}"
        return words + _gaps_in_words(self.n_gaps, "the median level")


@dataclasses.dataclass(frozen=True)
class CategoryEncoder:
    """An indicator for each frequent level, one for all rare ones, one for gaps and one for what is unknown.

    A level of a single row says as much as one that was never seen, so such rows teach what "unknown" means: where
    there are rare levels, both are rare as well as unknown.

    Attributes:
      kept: levels with an indicator of their own.
      rare: those that share one.
      single: those of the rare ones that stand in one row.
      n_gaps: gaps in the fitted rows; without any, a later gap is unknown.
    """

    name: str
    kept: tuple[str, ...]
    rare: tuple[str, ...]
    single: tuple[str, ...]
    n_gaps: int

    kind: ClassVar[Kind | None] = "category"
    levels: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def fit(
        cls, column: RawColumn | ColumnSummary, fewest_rows: int = FEWEST_ROWS, most_levels: int = MOST_LEVELS
    ) -> CategoryEncoder:
        found = summary_of(column)
        # The most frequent first; among equals the first in the alphabet, so that the order of rows decides nothing.
        ranked = sorted((-count, level) for level, count in found.counts.items())
        # In a table of a few rows no level may reach that.
        fewest_rows = min(fewest_rows, max(2, max(found.counts.values(), default=0)))
        kept = [level for count, level in ranked[:most_levels] if -count >= fewest_rows]
        rare = sorted(level for _, level in ranked if level not in set(kept))
        if len(rare) == 1:  # a pool of one is that level
            kept, rare = kept + rare, []
        single = [level for count, level in ranked if count == -1 and level in set(rare)]
        return cls(found.name, tuple(sorted(kept)), tuple(rare), tuple(sorted(single)), found.n_gaps)

    @property
    def outputs(self) -> tuple[str, ...]:
        pooled = ["another, rare"] if self.rare else []
        missing = ["missing"] if self.n_gaps else []
        return tuple(f"{self.name} is {level}" for level in (*self.kept, *pooled, *missing, "unknown"))

    @property
    def as_they_are(self) -> tuple[bool, ...]:
        return (True,) * len(self.outputs)

    def __call__(self, column: RawColumn) -> np.ndarray:
        # What rows there can be: one for each kept level, then those of rare, missing and unknown ones.
        n_outputs, pooled = len(self.outputs), len(self.kept)
        rows = np.zeros((pooled + 3, n_outputs))
        rows[:pooled, :pooled] = np.eye(pooled)
        rare, missing, unknown = pooled, pooled + 1, pooled + 2
        if self.rare:
            rows[[rare, unknown], pooled] = 1
        rows[unknown, -1] = 1
        rows[missing] = rows[unknown]
        if self.n_gaps:
            rows[missing] = np.arange(n_outputs) == n_outputs - 2
        which = {level: at for at, level in enumerate(self.kept)}
        which |= dict.fromkeys(self.rare, rare) | dict.fromkeys(self.single, unknown)
        # The last entry is where code -1, a gap, points to.
        found = np.array([*(which.get(level, unknown) for level in column.levels), missing])
        return rows[found[column.values]]

    def is_new(self, column: RawColumn) -> bool:
        """Whether a later column has a level that the fitted one had not."""
        known = {*self.kept, *self.rare}
        new = [code for code, level in enumerate(column.levels) if level not in known]
        return bool(new) and bool(np.isin(column.values, new).any())

    def in_words(self) -> str:
        words = f"category, an indicator each for {listed(self.kept)}" if self.kept else "category"
        words += f", one for {len(self.rare)} rare levels together" if self.rare else ""
        words += f", one for {self.n_gaps} gaps" if self.n_gaps else ""
        return f"{words}, one for what is unknown"


@dataclasses.dataclass(frozen=True)
class DateEncoder:
    """Days since the first date, and the cycles (day, week, year) that the dates run through."""

    name: str
    first: str
    cycles: tuple[str, ...]
    fill: float
    n_gaps: int

    kind: ClassVar[Kind | None] = "date"
    levels: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def fit(cls, column: RawColumn | ColumnSummary) -> DateEncoder:
        found = summary_of(column)
        first = found.ends[0].astype("datetime64[D]")
        ends, middle = (found.ends - first) / _DAY, (found.middle - first) / _DAY
        # A cycle that the dates do not complete says no more than the date itself. Nor does the time of dates that have
        # none, the day of the week of months, or the place in the year of years.
        cycles = [name for name in CYCLES if np.ptp(ends) >= CYCLES[name][0] and name in found.varies]
        return cls(found.name, str(first), tuple(cycles), float(np.median(middle)), found.n_gaps)

    @property
    def outputs(self) -> tuple[str, ...]:
        circles = [f"{self.name}, {part} of the {cycle}" for cycle in self.cycles for part in ("sine", "cosine")]
        return (self.name, *circles, *([f"{self.name} is missing"] if self.n_gaps else []))

    @property
    def as_they_are(self) -> tuple[bool, ...]:
        return (False, *[True] * (len(self.outputs) - 1))

    def __call__(self, column: RawColumn) -> np.ndarray:
        gaps = column.gaps
        days = np.where(gaps, self.fill, (column.values - np.datetime64(self.first)) / _DAY)
        # From a fixed day on, so that the parts do not depend on the first date.
        since = np.where(gaps, np.nan, (column.values - np.datetime64("2001-01-01")) / _DAY)
        made = [days]
        for cycle in self.cycles:
            period, size = CYCLES[cycle]
            angle = 2 * math.pi * since / period
            made += [np.where(gaps, 0.0, size * part) for part in (np.sin(angle), np.cos(angle))]
        return np.stack([*made, gaps] if self.n_gaps else made, axis=1)

    def in_words(self) -> str:
        circles = f" and as place in the {' and in the '.join(self.cycles)}" if self.cycles else ""
        return f"date, as days since {self.first}{circles}{_gaps_in_words(self.n_gaps, 'the median date')}"


@dataclasses.dataclass(frozen=True)
class LeftOut:
    """A column that is left out, and why."""

    name: str
    reason: str

    kind: ClassVar[Kind | None] = None
    levels: ClassVar[tuple[str, ...]] = ()
    outputs: ClassVar[tuple[str, ...]] = ()
    as_they_are: ClassVar[tuple[bool, ...]] = ()

    def in_words(self) -> str:
        return f"left out: {self.reason}"


Encoder = NumberEncoder | OrderedEncoder | CategoryEncoder | DateEncoder | LeftOut
_ENCODERS: dict[str, type[Encoder]] = {
    "number": NumberEncoder,
    "ordered": OrderedEncoder,
    "category": CategoryEncoder,
    "date": DateEncoder,
    "left out": LeftOut,
}


def encoder_to_json(encoder: Encoder) -> dict[str, Any]:
    """Plain values, from which `encoder_from_json` makes the same encoder."""
    values = {name: list(v) if isinstance(v, tuple) else v for name, v in dataclasses.asdict(encoder).items()}
    return {"as": encoder.kind or "left out", **values}


def encoder_from_json(entry: Any, where: str = "A column") -> Encoder:
    """The encoder whose values a file holds.

    Args:
      where: the place in the file, to begin sentences with.
    """
    kind = mapping(plain)(entry, where).get("as")
    encoder: Any = _ENCODERS[one_of(*_ENCODERS)(kind, f"{where}: 'as'")]
    names = [field.name for field in dataclasses.fields(encoder)]
    absent = [name for name in names if name not in entry]
    if absent:
        raise unfit(where, f"a column with {absent[0]!r}", None)
    return encoder(**{name: _STORED[name](entry[name], f"{where}: {name!r}") for name in names})


def _first_date(value: Any, where: str) -> str:
    try:
        # Microseconds, as the dates of tables are kept; what they cannot hold comes back as another day.
        day = np.datetime64(text(20)(value, where), "D").astype("datetime64[us]").astype("datetime64[D]")
    except ValueError as error:
        raise unfit(where, "a date", value) from error
    if np.isnat(day) or str(day) != value:
        raise unfit(where, "a date", value)
    return value


_STORED: dict[str, Check] = {
    "name": text(),
    "reason": text(),
    "fill": number(),
    "n_gaps": whole(),
    "order": listing(text(), least=1),
    "kept": listing(text()),
    "rare": listing(text()),
    "single": listing(text()),
    "first": _first_date,
    "cycles": listing(one_of(*CYCLES), most=len(CYCLES)),
}


def _gaps_in_words(n_gaps: int, with_what: str) -> str:
    return f"; {n_gaps} gap{'s' if n_gaps > 1 else ''} filled with {with_what}, and marked" if n_gaps else ""
