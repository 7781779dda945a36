"""The torture suite: kills, faults, damaged files, malformed arguments, load.

    python benchmarks/torture [--seed 0] [--minutes 28] [--only kills] [--out results/torture.json]

Every campaign draws from the seed and stops after its share of the time. Prints a table; exits with 1 if anything
failed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np
from arguments import arguments
from faults import faults
from files import files
from kills import kills, signals
from load import load

from nu_ensembles.training import environment

# Shares of the time, and how many attempts a sample makes at least.
CAMPAIGNS = {
    "kills": (kills, 0.35),
    "signals": (signals, 0.2),
    "faults": (faults, 0.15),
    "files": (files, 0.15),
    "arguments": (arguments, 0.1),
    "load": (load, 0.05),
}


def main() -> int:
    parser = argparse.ArgumentParser(description="Kills, faults, damaged files, malformed arguments, load.")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=28.0)
    parser.add_argument("--only", nargs="*", choices=list(CAMPAIGNS), default=list(CAMPAIGNS))
    parser.add_argument("--least", type=int, default=0, help="attempts of a campaign, however long they take")
    parser.add_argument("--out", type=Path)
    how = parser.parse_args()
    warnings.simplefilter("ignore")
    rows, examples = [], []
    whole = sum(CAMPAIGNS[name][1] for name in how.only)
    with tempfile.TemporaryDirectory() as folder:
        for number, name in enumerate(how.only):
            campaign, share = CAMPAIGNS[name]
            rng = np.random.default_rng([how.seed, number])
            tally = campaign(60 * how.minutes * share / whole, rng, Path(folder, name), how.least)
            rows += tally.rows()
            examples += [f"{name}: {each}" for each in tally.examples]
            for row in tally.rows():
                print(
                    f"{row['campaign']:<10} {row['kind']:<48} {row['tried']:>7} {row['refused']:>7} {row['failed']:>6}",
                    flush=True,
                )
    print(f"{'':<10} {'':<48} {'tried':>7} {'refused':>7} {'failed':>6}")
    print("\n".join(examples))
    if how.out is not None:
        # Where the results go decides none of them.
        options = f"--seed {how.seed} --minutes {how.minutes:g}" + (f" --least {how.least}" if how.least else "")
        if how.only != list(CAMPAIGNS):
            options += f" --only {' '.join(how.only)}"
        about = {"command": f"python benchmarks/torture {options}", "environment": environment()}
        how.out.write_text(json.dumps({**about, "rows": rows, "examples": examples}, indent=1) + "\n")
    return 1 if any(row["failed"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
