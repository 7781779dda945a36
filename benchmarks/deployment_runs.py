"""Which runs `deployment_bank.py` keeps, what a rule for beta may be developed on, and two scores."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from nu_ensembles.deployment.accuracy import pair_agreement
from nu_ensembles_studies import shifts

TABLES_APART = "breast_cancer.", "vehicle.", "dna.", "cellseg.", "soybean.", "penguins."
UNSHIFTED = ".same", ".priors"


def wanted_runs(options: Any) -> list[tuple[str, int, int]]:
    """Name, seed and number of labels of each, as the command line asks for them."""
    named = [
        name
        for name in shifts.names()
        if not name.startswith("cifar10.") and shifts.available(name) and any(map(name.endswith, options.shifts))
    ]
    for role in ("development", "confirming"):
        if role in options.shifts:
            named += [name for name in shifts.names() if role_of(name) == role and shifts.available(name)]
    named = [name for name in dict.fromkeys(named) if options.network == "mlp" or name.startswith("digits.")]
    # The labels of a run are drawn by its name.
    wanted = []
    for seed in options.seeds:
        for name in named:
            labels = options.labels[zlib.crc32(f"{name} {seed}".encode()) % len(options.labels)]
            wanted.append((name, seed, labels))
    return wanted


def role_of(name: str) -> str:
    """What a rule may be developed on: some tables, parted however, and noisy or blurred digits; "" for controls."""
    change = name.split(".", 1)[1]
    if name.endswith(UNSHIFTED) or name.startswith("cifar10."):
        return ""
    if name.startswith("digits.") and change[-1].isdigit() and not change.startswith("component"):
        # Severities 1, 3 and 5 of either kind; the others are much like them.
        return shifts.role_of(name) if change[-1] in "135" else ""
    if change.endswith("-mnist") or name.startswith(TABLES_APART) or change in ("AREA", "AGE", "Site"):
        return "confirming"
    return "development"


def by_table(wanted: list[tuple[str, int, int]]) -> list[list[tuple[str, int, int]]]:
    """Runs of a table and size by fours, which share their compiled programs."""
    groups: dict[Any, list[tuple[str, int, int]]] = {}
    for name, seed, labels in wanted:
        table = name.split(".")[0]
        groups.setdefault((seed, table, labels), []).append((name, seed, labels))
    found = [group[start : start + 4] for group in groups.values() for start in range(0, len(group), 4)]
    return sorted(found, key=lambda group: (group[0][1], zlib.crc32(repr(group).encode())))


def nll_of(p: Any, y: Any) -> float:
    """Of probabilities `[N, C]` and labels `[N]`."""
    return float(-np.log(np.maximum(p[np.arange(len(y)), y], 1e-30)).mean())


def agreement_of(members: Any) -> float:
    """The share of pairs of members `[K, N, C]` that predict the same class."""
    return float(pair_agreement(members).mean())
