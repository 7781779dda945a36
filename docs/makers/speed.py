"""What the parts that are there for speed only give, compile for, and cost in lines."""

from __future__ import annotations

import statistics
from typing import Any

from makers.files import Maker, stored, table

Row = dict[str, Any]


def ratios(row: Row, clock: str = "processor") -> list[float]:
    """Time without the part over time with it, of every pair of turns."""
    found = row[clock]
    return [without / own for own, without in zip(found["with_ms"], found["without_ms"], strict=True)]


def seconds(row: Row) -> str:
    own, without = row["processor"]["compile_with_s"], row["processor"]["compile_without_s"]
    return f"{own:.1f} against {without:.1f}"


def is_told_apart(row: Row) -> bool:
    """Whether every pair of turns was slower without the part."""
    return min(ratios(row)) > 1


def on_a_cpu() -> str:
    """Parts that a CPU uses."""
    found = stored("what-speed-costs-cpu")
    rows = [
        [
            row["part"],
            row["network"],
            f"{statistics.median(ratios(row)):.2f} ({min(ratios(row)):.2f} to {max(ratios(row)):.2f})",
            "yes" if is_told_apart(row) else "no",
            seconds(row),
            str(row["lines"]),
        ]
        for row in found["rows"]
    ]
    head = [
        "part",
        "network",
        "without it, times the processor time of a step",
        "told apart",
        "compiled in, s",
        "lines",
    ]
    cores, jax = found["environment"]["cores"], found["environment"]["versions"]["jax"]
    source = f"Measured by `{found['command']}` on {cores} CPU cores that others used, jax {jax}."
    return "\n".join([*table(head, rows), "", source, ""])


def for_an_h200() -> str:
    """Parts that change a GPU's program, which is compiled without a GPU."""
    found = stored("what-speed-costs-for-an-h200-cpu")
    rows = [
        [
            row["part"],
            row["network"],
            f"{row['with']['operations']:,} against {row['without']['operations']:,}",
            f"{row['with']['compile_s']:.1f} against {row['without']['compile_s']:.1f}",
            str(row["lines"]),
        ]
        for row in found["rows"]
    ]
    head = ["part", "network", "operations in the program", "compiled in, s of processors, no kernels timed", "lines"]
    source = f"Measured by `{found['command']}`, one process each. Against: without the part."
    return "\n".join([*table(head, rows), "", source, ""])


def removed() -> str:
    """What was there for speed and is not any more."""
    rows = []
    for row in stored("speed-removed")["rows"]:
        found = row.get("recorded")
        if found is None:
            gain = f"without it a step takes {statistics.median(ratios(row)):.2f} times as long (CPU)"
        elif "ms_with" in found:
            gain = f"{found['ms_with']:.2f} against {found['ms_without']:.2f} ms a step; "
            gain += f"{found['compile_s_with']:.1f} against {found['compile_s_without']:.1f} s to compile (H200)"
        else:
            own, without = (", ".join(f"{s:.1f}" for s in found[f"compile_s_{side}"]) for side in ("with", "without"))
            gain = f"compiled in {own} s against {without} s (H200)"
        rows.append([row["part"], row["network"], gain, str(row["lines"])])
    return "\n".join([*table(["part", "network", "with it, against without it", "lines"], rows), ""])


MAKER = Maker(tables={"speed-cpu.md": on_a_cpu, "speed-for-an-h200.md": for_an_h200, "speed-removed.md": removed})
