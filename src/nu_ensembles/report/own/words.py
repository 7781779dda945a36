"""Numbers as a reader of the page wants them."""

from __future__ import annotations

import math


def percent(share: float, digits: int = 1) -> str:
    """ "91.2 %"; a dash for what does not exist."""
    return "–" if math.isnan(share) else f"{100 * share:.{digits}f} %"


def points(difference: float) -> str:
    """ "+1.2", a difference of shares in percentage points, with a real minus sign."""
    return f"{100 * difference:+.1f}".replace("-", "−")


def between(low: float, high: float, digits: int = 1) -> str:
    """ "88.1 – 93.0 %"."""
    return f"{100 * low:.{digits}f} – {100 * high:.{digits}f} %"


def counted(n: int, noun: str) -> str:
    """ "1 row", "2,345 rows"."""
    return f"{n:,} {noun}{'' if n == 1 else 's'}"
