"""Tables as they are against a pipeline made by hand, for the page on tables."""

from __future__ import annotations

import numpy as np

from makers.files import Maker, stored, with_numbers_to_the_right


def mixed_tables() -> str:
    """Test NLL of both ways on each table, and their paired difference over the splits."""
    found = stored("mixed-tables-cpu")
    lines = []
    for row in found["rows"]:
        ours, by_hand = (np.array([run[way]["nll"] for run in row["runs"]]) for way in ("as they are", "by hand"))
        change, error = ours.mean() / by_hand.mean() - 1, (ours - by_hand).std(ddof=1) / len(ours) ** 0.5
        numbers = [f"{by_hand.mean():.3f}", f"{ours.mean():.3f}", f"{100 * change:+.1f} %"]
        lines.append([row["table"], f"{row['rows']:,}", *numbers, f"± {100 * error / by_hand.mean():.1f} %"])
    head = ["table", "rows", "NLL by hand", "NLL as they are", "difference", "standard error"]
    source = (
        f"Measured by `{found['command']}` on a CPU, jax {found['environment']['versions']['jax']}: up to 300 labelled "
        f"and 1,000 unlabelled rows, {found['splits']} splits; the standard error is that of the paired difference."
    )
    return "\n".join([*with_numbers_to_the_right(head, lines), "", source, ""])


MAKER = Maker(tables={"mixed-tables.md": mixed_tables})
