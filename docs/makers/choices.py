"""Tables about what is chosen: when to stop."""

from __future__ import annotations

from typing import Any

import numpy as np

from makers.files import Maker, stored, with_numbers_to_the_right

# Rules were looked at on these seeds, and confirmed on the later ones.
LOOKED_AT = (10, 11, 12)


def _percent(value: float) -> str:
    return f"{100 * value:+.1f}".replace("-", "−")


def _mean(changes: np.ndarray) -> str:
    """The geometric mean of relative changes, and its 95 % interval."""
    logs = np.log1p(changes)
    return f"{_percent(float(logs.mean()))} ± {196 * logs.std(ddof=1) / len(logs) ** 0.5:.1f}"


def when_to_stop() -> str:
    """What every rule for the number of steps does to the test NLL, on the seeds looked at and on others."""
    found = stored("when-to-stop")
    parts = [
        [row["changes"] for row in found["rows"] if (row["seed"] in LOOKED_AT) == first] for first in (True, False)
    ]
    rows = []
    for rule in found["rows"][0]["changes"]:
        looked_at, others = (np.array([row[rule] for row in part]) for part in parts)
        counts = int((others > 0.02).sum()), int((others < -0.02).sum())
        rows.append([rule, _mean(looked_at), _mean(others), _percent(others.max()), *map(str, counts)])
    head = [
        "Test NLL, %, against the folds' best step",
        f"looked at ({len(parts[0])} splits)",
        f"others ({len(parts[1])})",
        "worst",
        "> 2 % worse",
        "> 2 % better",
    ]
    return "\n".join([*with_numbers_to_the_right(head, rows), "", _source(found), ""])


def _source(found: dict[str, Any]) -> str:
    environment, seeds = found["environment"], sorted({row["seed"] for row in found["rows"]})
    tables = len({row["table"] for row in found["rows"]})
    return (
        f"Measured by `{found['command']}` on {environment['device']}, jax {environment['versions']['jax']}: {tables} "
        f"tables, seeds {seeds[0]} to {seeds[-1]}."
    )


MAKER = Maker(tables={"when-to-stop.md": when_to_stop})
