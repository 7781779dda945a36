"""The torture suite: kills, faults, damaged files, malformed arguments, load.

    python benchmarks/torture [--seed 0] [--minutes 28] [--processes 2] [--only kills] [--out results/torture.json]

Every part of a campaign is a process of its own, so that one that hangs or dies is seen; as many run at a time as asked
for. A part makes a number of attempts, drawn from the seed, and stops early only where its share of the time is over.
Prints a table; exits with 1 if anything failed, or if less was tried than the campaign's bar.
"""

from __future__ import annotations

import argparse
import dataclasses
import importlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of a campaign.

    Attributes:
      attempts: how many it makes.
      share: of the whole time on one process, that it may take.
    """

    campaign: str
    module: str
    attempts: int
    share: float


# The longest first. All parts together may take twice the time that was given, on two processes.
PARTS = {
    "kills-0": Part("kills", "kills", 450, 0.28),
    "kills-1": Part("kills", "kills", 450, 0.28),
    "files-0": Part("files", "files", 10_300, 0.3),
    "files-1": Part("files", "files", 10_300, 0.3),
    "arguments-0": Part("arguments", "arguments", 10_300, 0.3),
    "arguments-1": Part("arguments", "arguments", 10_300, 0.3),
    "load": Part("load", "load", 1_000, 0.3),
    "faults": Part("faults", "faults", 400, 0.25),
    "commands": Part("kills", "commands", 300, 0.2),
    "signals": Part("kills", "signals", 24, 0.3),
}
# Bytes of a process.
MOST_MEMORY = 8 << 30
# How much is tried at least.
BARS = {"kills": 1_000, "faults": 200, "files": 20_000, "arguments": 20_000}


def main() -> int:
    parser = argparse.ArgumentParser(description="Kills, faults, damaged files, malformed arguments, load.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=28.0, help="at most, on two processes")
    parser.add_argument("--processes", type=int, default=2, help="how many parts run at a time")
    parser.add_argument("--only", nargs="*", choices=list(PARTS), default=list(PARTS), metavar="PART")
    parser.add_argument("--share", type=float, default=1.0, help="of the attempts")
    parser.add_argument("--attempts", type=int, help="of every part, for a small sample")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--part", choices=list(PARTS), help=argparse.SUPPRESS)
    how = parser.parse_args()
    if how.part:
        return one_part(how)
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(how.processes) as pool:
        found = list(pool.map(lambda name: in_a_process(name, how, Path(folder)), how.only))
    rows = added_up([row for part in found for row in part["rows"]])
    examples, notes = ([each for part in found for each in part[what]] for what in ("examples", "notes"))
    tried = Counter()
    for row in rows:
        tried[row["campaign"]] += row["tried"]
    short = (
        []
        if how.attempts or how.share != 1 or how.only != list(PARTS)
        else [name for name, bar in BARS.items() if tried[name] < bar]
    )
    examples += [f"{name}: {tried[name]} attempts, where {BARS[name]} are asked for" for name in short]
    print_table(rows)
    print("\n".join([*notes, *examples]))
    if how.out is not None:
        write_results(how, rows, notes, examples, time.monotonic() - started)
    return 1 if examples else 0


def in_a_process(name: str, how: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """What a part found; a part that dies or never ends has failed."""
    out, part = folder / f"{name}.json", PARTS[name]
    command = [sys.executable, str(Path(__file__).parent), *sys.argv[1:], "--part", name, "--out", str(out)]
    # One core each, and nothing of an earlier run at hand: no compiled program, no data. An argument may be the name of
    # a file: it is written in a folder that goes.
    (folder / name).mkdir()
    own = {"XDG_CACHE_HOME": str(folder / name / "cache"), "TMPDIR": str(folder), "OMP_NUM_THREADS": "1"}
    seconds = 60 * how.minutes * 2 * part.share + 600
    try:
        done = subprocess.run(
            command, cwd=folder / name, env={**os.environ, **own}, capture_output=True, text=True, timeout=seconds
        )
        said = f"ended with {done.returncode}: {done.stderr[-2000:]}"
    except subprocess.TimeoutExpired:
        said = f"did not end in {seconds:.0f} s"
    if out.exists():
        return json.loads(out.read_text())
    row = {"campaign": part.campaign, "kind": f"all of {name}", "tried": 1, "refused": 0, "failed": 1}
    return {"rows": [row], "examples": [f"{name}: {said}"], "notes": []}


def one_part(how: argparse.Namespace) -> int:
    """Runs one part here, and writes what it found."""
    warnings.simplefilter("ignore")
    part = PARTS[how.part]
    # What takes more than that fails here, and not the whole machine.
    resource.setrlimit(resource.RLIMIT_DATA, (MOST_MEMORY, MOST_MEMORY))
    campaign = getattr(importlib.import_module(part.module), part.module)
    rng = np.random.default_rng([how.seed, list(PARTS).index(how.part)])
    attempts = max(1, round(part.attempts * how.share)) if how.attempts is None else how.attempts
    with tempfile.TemporaryDirectory() as folder:
        tally = campaign(attempts, 60 * how.minutes * 2 * part.share, rng, Path(folder, how.part))
    how.out.write_text(json.dumps({"rows": tally.rows(), "examples": tally.examples, "notes": tally.notes}))
    return 0


def added_up(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """A row for each kind, whatever parts tried it."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    for row in rows:
        same = found.setdefault((row["campaign"], row["kind"]), {**row, "tried": 0, "refused": 0, "failed": 0})
        for count in ("tried", "refused", "failed"):
            same[count] += row[count]
    return list(found.values())


def print_table(rows: list[dict[str, Any]]) -> None:
    print(f"{'':<10} {'':<48} {'tried':>7} {'refused':>7} {'failed':>6}")
    for row in rows:
        counts = f"{row['tried']:>7} {row['refused']:>7} {row['failed']:>6}"
        print(f"{row['campaign']:<10} {row['kind']:<48} {counts}")


def write_results(
    how: argparse.Namespace, rows: list[Any], notes: list[str], examples: list[str], seconds: float
) -> None:
    from nu_ensembles.training import environment

    options = f"--seed {how.seed} --minutes {how.minutes:g} --processes {how.processes}"
    options += f" --attempts {how.attempts}" if how.attempts else ""
    options += f" --share {how.share:g}" if how.share != 1 else ""
    options += f" --only {' '.join(how.only)}" if how.only != list(PARTS) else ""
    about = {"command": f"python benchmarks/torture {options}", "seconds": round(seconds)}
    about |= {"environment": environment(), "bars": BARS}
    how.out.write_text(json.dumps({**about, "rows": rows, "notes": notes, "examples": examples}, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
