"""Load: threads that predict at the same time, fits without end in one process; right results, no growth."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
from tally import Tally, blobs

import nu_ensembles as nu

MOST_GROWTH = 64 << 20


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def load(seconds: float, rng: np.random.Generator, place: Path, least: int) -> Tally:
    """32 threads on one ensemble; then as many fits of one shape as there is time for."""
    tally = Tally("load", seconds)
    x, y, _ = blobs(rng)
    options = {"n_members": 2, "max_iter": 2, "model_options": {"hidden": (8,)}, "random_state": 0}
    fitted = nu.EnsembleClassifier(**options).fit(x, y)
    right = fitted.predict_proba(x)
    with ThreadPoolExecutor(32) as pool:
        for found in [pool.submit(fitted.predict_proba, x) for _ in range(320)]:
            tally.attempt("32 threads predict", found.result, lambda p: np.array_equal(p, right))
    before, number = 0, 0
    tally.start()
    while number < max(least, 30) or not (tally.is_over or number >= 1000):
        number += 1
        tally.attempt(
            "fits in one process",
            lambda: nu.EnsembleClassifier(**options).fit(x, y).predict_proba(x),
            lambda p: np.array_equal(p, right),
        )
        if number == 20:
            before = resident()
    if resident() - before > MOST_GROWTH:
        tally.fail("fits in one process", f"{(resident() - before) >> 20} MB more after {number - 20} fits")
    return tally
