"""How often the two-sample test of every fit calls rows different: of one table (size), and of shifted ones (power).

    python benchmarks/two_sample_test.py --folder FOLDER --out results/two-sample-test.json

FOLDER: see `small_tables.py`; tables of text columns are left out. "Labelled" rows are drawn at random, "unlabelled"
ones from the rest, and shifted. Finished rows are kept in the file, and skipped when it is started again.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import small_tables
from nu_ensembles.deployment import two_sample_test
from recording import Recording

TABLES = ("digits", "wine", "breast_cancer", "pima", "vehicle", "spam")
MOST_UNLABELLED = 500
# (rows, their spread [D], rng) -> rows
Change = Callable[[np.ndarray, np.ndarray, np.random.Generator], np.ndarray]


def first_column(spread: np.ndarray) -> np.ndarray:
    """1 for the column of the largest spread, 0 for the others."""
    return np.arange(len(spread)) == spread.argmax()


CHANGES: dict[str, Change] = {
    "none": lambda rows, spread, rng: rows,
    "every mean by 0.2 σ": lambda rows, spread, rng: rows + 0.2 * spread,
    "one mean by 0.5 σ": lambda rows, spread, rng: rows + 0.5 * spread * first_column(spread),
    "one spread × 1.7": lambda rows, spread, rng: np.where(
        first_column(spread), rows.mean(axis=0) + 1.7 * (rows - rows.mean(axis=0)), rows
    ),
    "noise of 0.5 σ": lambda rows, spread, rng: rows + 0.5 * spread * rng.normal(size=rows.shape),
    "three columns shuffled": lambda rows, spread, rng: np.column_stack(
        [rng.permutation(column) if number < 3 else column for number, column in enumerate(rows.T)]
    ),
}


def p_values(rows: np.ndarray, n: int, change: Change, n_resamples: int) -> np.ndarray:
    found = []
    for seed in range(n_resamples):
        rng = np.random.default_rng([n, seed])
        order = rng.permutation(len(rows))
        labelled, unlabelled = rows[order[:n]], rows[order[n : n + MOST_UNLABELLED]]
        test = two_sample_test(labelled, change(unlabelled, rows.std(axis=0), rng), seed=seed)
        assert test is not None
        found.append(test.p_value)
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=os.environ.get("NU_ENSEMBLES_TABLES", "."))
    parser.add_argument("--labelled", type=int, nargs="+", default=(50,), help="how many rows are labelled")
    parser.add_argument("--resamples", type=int, default=100, help="of unshifted rows, for each table and size")
    parser.add_argument("--shifted", type=int, default=20, help="of shifted rows")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    command = "python benchmarks/two_sample_test.py --folder FOLDER"
    recording = Recording("two-sample-test", command, ("table", "labelled", "change", "resamples"), options.out)
    for name in TABLES:
        found = small_tables.table(name, options.folder)
        if found is None:
            continue
        rows = np.asarray(found[0], float).reshape(len(found[1]), -1)
        for n in (each for each in options.labelled if 2 * each < len(rows)):
            for label, change in CHANGES.items():
                n_resamples = options.resamples if label == "none" else options.shifted
                row = {"table": name, "labelled": n, "change": label, "resamples": n_resamples}
                if any(row.items() <= kept.items() for kept in recording.rows):
                    continue
                start = time.process_time()
                of_these = p_values(rows, n, change, n_resamples)
                seconds = (time.process_time() - start) / n_resamples
                row |= {f"below_{level}": int((of_these < level).sum()) for level in (0.01, 0.05, 0.1)}
                recording.add(row | {"unlabelled": min(MOST_UNLABELLED, len(rows) - n), "seconds": seconds})
                print(recording.rows[-1], flush=True)


if __name__ == "__main__":
    main()
