"""Numbers as strict JSON holds them, which knows neither nan nor infinity, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping

# What one label of probability 0 makes infinite.
UNBOUNDED = ("nll", "member_nll")


def plain(scores: dict[str, float]) -> dict[str, float | None]:
    """Scores in six digits, which are more than seeds agree on; what is not finite is None."""
    return {name: float(f"{value:.6g}") if math.isfinite(value) else None for name, value in scores.items()}


def stored_value(scores: Mapping[str, float | None], metric: str) -> float:
    """What `plain` made of a metric: nan where there is none, and an NLL that is None was infinite."""
    value = scores.get(metric)
    if value is not None:
        return value
    return math.inf if metric in scores and metric in UNBOUNDED else math.nan


def none_for_nan(value: float) -> float | None:
    return None if math.isnan(value) else value


def nan_for_none(value: float | None) -> float:
    return math.nan if value is None else value
