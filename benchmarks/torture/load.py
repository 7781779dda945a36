"""Load: many rows from a file, fits without end, threads and processes at the same time; right results, no growth."""

from __future__ import annotations

import gc
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from tally import Tally, blobs, lowered_peak, peak, tiny

import nu_ensembles as nu
from nu_ensembles.engine.fast import compilation

MANY_ROWS, MANY_FITS, THREADS, PROCESSES = 10_000_000, 1000, 32, 8
# Programs that a process keeps when its memory is looked at.
FEW_PROGRAMS = 16
# What a process may grow by while it fits again and again, or predicts from a file beside what it gives back.
MOST_GROWTH = 64 << 20
FIT = """
import sys, numpy as np, nu_ensembles as nu
rng = np.random.default_rng(0)
x, y = rng.normal(size=(60, 5)), np.arange(60) % 3
fitted = nu.EnsembleClassifier(n_members=3, max_iter=4, random_state=0, model_options={"hidden": (16, 16)}).fit(x, y)
print(fitted.predict_proba(x).tobytes().hex())
"""


def load(attempts: int, seconds: float, rng: np.random.Generator, place: Path) -> Tally:
    """All of it once; where few attempts are asked for, as many rows, fits and threads less."""
    place.mkdir(parents=True)
    share = min(1.0, attempts / MANY_FITS)
    tally = Tally("load", attempts, seconds)
    x, y, u = blobs(rng)
    fitted = tiny("search").fit(x, y, u)
    _threads(tally, fitted, x)
    _many_rows(tally, fitted.ensemble_, x, place, max(1000, int(MANY_ROWS * share)))
    if share == 1.0:
        _one_cache(tally, place)
        _new_shapes(tally, rng)
    _many_fits(tally, x, y, max(30, int(MANY_FITS * share)))
    shutil.rmtree(place, ignore_errors=True)
    return tally


def _threads(tally: Tally, fitted: Any, x: np.ndarray) -> None:
    right = fitted.predict_proba(x)
    with ThreadPoolExecutor(THREADS) as pool:
        for found in [pool.submit(fitted.predict_proba, x) for _ in range(10 * THREADS)]:
            tally.attempt(f"{THREADS} threads predict", found.result, lambda p: np.array_equal(p, right))


def _many_rows(tally: Tally, ensemble: nu.Ensemble, x: np.ndarray, place: Path, n_rows: int) -> None:
    """Rows in a file that is mapped into memory; what comes back repeats as they do."""
    block = np.ascontiguousarray(np.tile(x, (25, 1)).astype(np.float32))
    file = np.lib.format.open_memmap(place / "rows.npy", "w+", np.float32, (n_rows, x.shape[1]))
    for start in range(0, n_rows, len(block)):
        file[start : start + len(block)] = block[: n_rows - start]
    file.flush()
    del file
    right = ensemble.predict_proba(block)
    rows = np.load(place / "rows.npy", mmap_mode="r")
    given = rows.nbytes + 4 * n_rows * right.shape[1]
    before = lowered_peak()

    def call() -> np.ndarray:
        return ensemble.predict_proba(rows)

    def is_right(found: np.ndarray) -> bool:
        return all(
            np.allclose(found[start : start + len(right)], right[: n_rows - start], rtol=1e-5, atol=1e-7)
            for start in range(0, n_rows, len(right))
        )

    kind = f"{n_rows:,} rows of a file predicted"
    tally.attempt(kind, call, is_right, longer=100)
    grown = peak() - before - given
    if grown > 4 * MOST_GROWTH:
        tally.fail(kind, f"{grown >> 20} MB more than the rows and their probabilities take")


def _one_cache(tally: Tally, place: Path) -> None:
    """Processes that start at the same time with one empty folder of compiled programs; then one of damaged ones."""
    own = {**os.environ, "XDG_CACHE_HOME": str(place / "cache")}
    said: set[str] = set()

    def wait(processes: list[subprocess.Popen[str]], kind: str) -> None:
        for process in processes:
            tally.tried[kind] += 1
            out, error = process.communicate()
            said.add(out)
            if process.returncode or len(said) > 1:
                tally.fail(kind, error[-300:] or "another result than the others'")

    def start() -> subprocess.Popen[str]:
        return subprocess.Popen([sys.executable, "-c", FIT], env=own, stdout=-1, stderr=-1, text=True)

    wait([start() for _ in range(PROCESSES)], f"{PROCESSES} processes with one cache")
    for number, path in enumerate(sorted((place / "cache").rglob("*"))):
        if path.is_file():
            path.write_bytes(path.read_bytes()[: -7 * number] if number % 2 else b"\0" * 100)
    wait([start()], "a process with a damaged cache")


def _new_shapes(tally: Tally, rng: np.random.Generator) -> None:
    """Fits that share no program with an earlier one, until the process has forgotten its programs twice.

    A process keeps what it has compiled, up to a number of programs; memory is compared between two moments at which it
    keeps equally many.
    """
    kind, floors, highest = "fits of ever-new shapes", [], 0
    options = {"n_members": 2, "max_iter": 2, "model_options": {"hidden": (8,)}, "random_state": 0}
    for number in range(3 * compilation.MOST_PROGRAMS):
        x, y = rng.normal(size=(40, 6 + number)), np.arange(40) % 3
        kept = len(compilation._programs)
        tally.attempt(kind, lambda: nu.EnsembleClassifier(**options).fit(x, y).predict_proba(x), longer=2)  # noqa: B023
        highest = max(highest, lowered_peak())
        if kept < FEW_PROGRAMS == len(compilation._programs):
            gc.collect()
            compilation._trim()
            floors.append(lowered_peak())
        if len(floors) == 3:
            break
    if len(floors) < 3:
        tally.fail(kind, f"its programs were forgotten {max(0, len(floors) - 1)} times only")
        return
    grown = (floors[2] - floors[1]) >> 20
    tally.notes.append(
        f"{tally.tried[kind]} fits of ever-new shapes: {compilation.MOST_PROGRAMS} programs are kept, which take "
        f"{(highest - floors[1]) >> 20} MB more than {FEW_PROGRAMS} do; {grown} MB more from one forgetting of all to "
        "the next."
    )
    if floors[2] - floors[1] > MOST_GROWTH:
        tally.fail(kind, f"{grown} MB more from one forgetting of its programs to the next")


def _many_fits(tally: Tally, x: np.ndarray, y: np.ndarray, n_fits: int) -> None:
    options = {"n_members": 2, "max_iter": 2, "model_options": {"hidden": (8,)}, "random_state": 0}
    right = nu.EnsembleClassifier(**options).fit(x, y).predict_proba(x)
    before, ends = 0, time.monotonic() + tally.seconds
    for number in range(n_fits):
        if number == min(100, n_fits // 2):
            before = lowered_peak()
        tally.attempt(
            "fits in one process",
            lambda: nu.EnsembleClassifier(**options).fit(x, y).predict_proba(x),
            lambda p: np.array_equal(p, right),
        )
        if time.monotonic() > ends:
            tally.fail("fits in one process", f"time for {number} only")
            break
    if lowered_peak() - before > MOST_GROWTH:
        tally.fail("fits in one process", f"{(lowered_peak() - before) >> 20} MB more after {n_fits} fits")
