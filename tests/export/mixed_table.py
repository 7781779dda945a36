"""A table with a column of every kind, for tests of what is exported and served."""

from __future__ import annotations

from typing import Any

import numpy as np

from nu_ensembles.tables import RawColumn, RawTable


def mixed_table(n_rows: int, seed: int = 0) -> RawTable:
    """Numbers, text, ordered levels and dates, with gaps in each."""
    rng = np.random.default_rng(seed)

    def gaps(values: Any, gap: Any) -> np.ndarray:
        return np.where(np.arange(n_rows) % 11 == 3, gap, values)

    days = np.datetime64("2020-02-03T04:05", "us") + rng.integers(0, 900 * 86_400_000, n_rows).astype("timedelta64[ms]")
    city = np.where(np.arange(n_rows) == 5, 3, np.where(np.arange(n_rows) == 6, 4, rng.integers(0, 3, n_rows)))
    return RawTable(
        (
            RawColumn("age", "number", gaps(rng.normal(40, 10, n_rows), np.nan)),
            RawColumn("city", "category", gaps(city, -1).astype(np.int32), ("Ulm", "Bonn", "Köln", "Hof", "Au")),
            RawColumn("size", "ordered", gaps(rng.integers(0, 3, n_rows), -1).astype(np.int32), ("S", "M", "L")),
            RawColumn("bought", "date", gaps(days, np.datetime64("NaT"))),
            RawColumn("year", "number", rng.integers(2018, 2024, n_rows).astype(np.float64)),
        )
    )
