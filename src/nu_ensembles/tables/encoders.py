"""What becomes of one column: fitted once, applied to every later table, kept as JSON.

Each encoder knows the columns of numbers that it makes (`outputs`), which of them are indicators of 0 and 1 (and are
not scaled), and how to say in words what it does.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from nu_ensembles.tables.column import Kind, RawColumn
from nu_ensembles.tables.raw_table import listed

# A level in fewer rows is pooled with others of its kind, and so is everything beyond the most frequent ones.
FEWEST_ROWS = 3
MOST_LEVELS = 100
_DAY = np.timedelta64(1, "D")
# Cycles of dates, in days.
CYCLES = {"day": 1.0, "week": 7.0, "year": 365.2425}


@dataclasses.dataclass(frozen=True)
class NumberEncoder:
    """A number as it is; a gap is filled with the median, and marked if the fitted rows had any."""

    name: str
    fill: float
    n_gaps: int

    kind: ClassVar[Kind | None] = "number"

    @classmethod
    def fit(cls, column: RawColumn) -> NumberEncoder:
        gaps = column.gaps
        return cls(column.name, float(np.median(column.values[~gaps])), int(gaps.sum()))

    @property
    def levels(self) -> tuple[str, ...]:
        return ()

    @property
    def outputs(self) -> tuple[str, ...]:
        return (self.name, *([f"{self.name} is missing"] if self.n_gaps else []))

    @property
    def indicators(self) -> tuple[bool, ...]:
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
    def fit(cls, column: RawColumn) -> OrderedEncoder:
        of_codes = NumberEncoder.fit(column)
        return cls(of_codes.name, of_codes.fill, of_codes.n_gaps, column.levels)

    @property
    def levels(self) -> tuple[str, ...]:
        return self.order

    def in_words(self) -> str:
        words = f"ordered, as 0 to {len(self.order) - 1}: {' < '.join(self.order)}"
        return words + _gaps_in_words(self.n_gaps, "the median level")


@dataclasses.dataclass(frozen=True)
class CategoryEncoder:
    """An indicator for each frequent level, one for all rare ones, one for gaps and one for what was never seen.

    Attributes:
      kept: levels with an indicator of their own.
      rare: those that share one.
      n_gaps: gaps in the fitted rows; without any, a later gap counts as never seen.
    """

    name: str
    kept: tuple[str, ...]
    rare: tuple[str, ...]
    n_gaps: int

    kind: ClassVar[Kind | None] = "category"
    levels: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def fit(cls, column: RawColumn, fewest_rows: int = FEWEST_ROWS, most_levels: int = MOST_LEVELS) -> CategoryEncoder:
        counts = np.bincount(column.values[column.values >= 0], minlength=len(column.levels))
        # The most frequent first; among equals the first in the alphabet, so that the order of rows decides nothing.
        ranked = sorted((-count, level) for count, level in zip(counts.tolist(), column.levels, strict=True) if count)
        # In a table of a few rows no level may reach that.
        fewest_rows = min(fewest_rows, max(2, counts.max(initial=0)))
        kept = [level for count, level in ranked[:most_levels] if -count >= fewest_rows]
        rare = sorted(level for _, level in ranked if level not in set(kept))
        if len(rare) == 1:  # a pool of one is that level
            kept, rare = kept + rare, []
        return cls(column.name, tuple(sorted(kept)), tuple(rare), int(column.gaps.sum()))

    @property
    def outputs(self) -> tuple[str, ...]:
        pooled = ["another, rare"] if self.rare else []
        missing = ["missing"] if self.n_gaps else []
        return tuple(f"{self.name} is {level}" for level in (*self.kept, *pooled, *missing, "unknown"))

    @property
    def indicators(self) -> tuple[bool, ...]:
        return (True,) * len(self.outputs)

    def __call__(self, column: RawColumn) -> np.ndarray:
        unknown = len(self.outputs) - 1
        place = {level: at for at, level in enumerate(self.kept)}
        place |= dict.fromkeys(self.rare, len(self.kept))
        places = [place.get(level, unknown) for level in column.levels]
        # The last entry is where code -1, a gap, points to.
        places.append(unknown - 1 if self.n_gaps else unknown)
        ones = np.zeros((len(column), len(self.outputs)))
        ones[np.arange(len(column)), np.array(places)[column.values]] = 1
        return ones

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
    def fit(cls, column: RawColumn) -> DateEncoder:
        gaps = column.gaps
        dates = column.values[~gaps]
        first = dates.min().astype("datetime64[D]")
        days = (dates - first) / _DAY
        # A cycle that the dates do not complete says no more than the date itself; nor does an hour that is always 0.
        cycles = [name for name, period in CYCLES.items() if np.ptp(days) >= period]
        if "day" in cycles and len(np.unique(days % 1)) == 1:
            cycles.remove("day")
        return cls(column.name, str(first), tuple(cycles), float(np.median(days)), int(gaps.sum()))

    @property
    def outputs(self) -> tuple[str, ...]:
        circles = [f"{self.name}, {part} of the {cycle}" for cycle in self.cycles for part in ("sine", "cosine")]
        return (self.name, *circles, *([f"{self.name} is missing"] if self.n_gaps else []))

    @property
    def indicators(self) -> tuple[bool, ...]:
        return (*(False for _ in range(1 + 2 * len(self.cycles))), *([True] if self.n_gaps else []))

    def __call__(self, column: RawColumn) -> np.ndarray:
        gaps = column.gaps
        days = np.where(gaps, self.fill, (column.values - np.datetime64(self.first)) / _DAY)
        # From a fixed day on, so that the parts do not depend on the first date.
        since = np.where(gaps, np.nan, (column.values - np.datetime64("2001-01-01")) / _DAY)
        made = [days]
        for cycle in self.cycles:
            angle = 2 * math.pi * since / CYCLES[cycle]
            made += [np.where(gaps, 0.0, part) for part in (np.sin(angle), np.cos(angle))]
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
    indicators: ClassVar[tuple[bool, ...]] = ()

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


def encoder_from_json(entry: dict[str, Any]) -> Encoder:
    values = {name: tuple(v) if isinstance(v, list) else v for name, v in entry.items() if name != "as"}
    encoder: Any = _ENCODERS[entry["as"]]
    return encoder(**values)


def _gaps_in_words(n_gaps: int, with_what: str) -> str:
    return f"; {n_gaps} gap{'s' if n_gaps > 1 else ''} filled with {with_what}, and marked" if n_gaps else ""
