"""Faults: the disk is full at every write, a folder goes away, two work in one folder; nothing is lost."""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from kills import classifier
from tally import Tally, blobs

import nu_ensembles as nu
from nu_ensembles import storage
from nu_ensembles.errors import InputError


@contextmanager
def full_from(n: int, call: str) -> Iterator[list[int]]:
    """The disk has no room from the n-th call of a function of `os` on."""
    real, calls = getattr(os, call), [0]

    def fails(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] >= n:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return real(*arguments, **options)

    setattr(os, call, fails)
    try:
        yield calls
    finally:
        setattr(os, call, real)


def faults(seconds: float, rng: np.random.Generator, place: Path, least: int) -> Tally:
    """Every write of a fit fails once, as if the disk were full; then there is room again."""
    tally = Tally("faults", seconds)
    x, y, u = blobs(rng)
    kinds = ("search", "joint", "procedure")
    right = {kind: classifier(kind, None).fit(x, y, u).predict_members(x) for kind in kinds}
    points: list[tuple[str, str, int]] = []
    for kind in kinds:
        for call in ("fsync", "replace"):
            run = place / f"{kind}-{call}"
            with full_from(10**9, call) as calls:
                classifier(kind, run).fit(x, y, u)
            points += [(kind, call, n) for n in range(1, calls[0] + 1)]
    tally.start()
    for number, at in enumerate(rng.permutation(len(points))):
        if tally.is_over and number >= least:
            break
        kind, call, n = points[at]
        run = place / f"run-{number}"
        _one_full_disk(tally, kind, call, n, run, right[kind], (x, y, u))
        shutil.rmtree(run, ignore_errors=True)
    _others(tally, place, right["search"], (x, y, u))
    return tally


def _one_full_disk(tally: Tally, kind: str, call: str, n: int, run: Path, right: np.ndarray, rows: Any) -> None:
    x, y, u = rows

    def with_no_room() -> Any:
        with full_from(n, call):
            return classifier(kind, run).fit(x, y, u)

    def with_room() -> bool:
        if (run / "model").exists() and not (run / "unfinished").exists():
            return np.array_equal(nu.Ensemble.load(run / "model").predict_members(x), right)
        return np.array_equal(classifier(kind, run, resume=True).fit(x, y, u).predict_members(x), right)

    tally.attempt(f"disk full, {call}", with_no_room, lambda _: n != 1, longer=10)
    tally.attempt("room again", with_room, bool, longer=10)


def _others(tally: Tally, place: Path, right: np.ndarray, rows: Any) -> None:
    x, y, u = rows
    run = place / "held"
    run.mkdir(parents=True)
    with storage.alone_in(run):
        tally.attempt("two in one folder", lambda: classifier("search", run).fit(x, y, u), lambda _: False)
    model = classifier("search", place / "gone").fit(x, y, u).ensemble_
    with storage.claimed(place / "claimed"):

        def second() -> None:
            with storage.claimed(place / "claimed"):
                raise AssertionError("went in")

        tally.attempt("two for one place", second)
    os.chmod(run, 0o500)
    tally.attempt("read-only folder", lambda: model.save(run / "model"), lambda _: os.geteuid() == 0)
    os.chmod(run, 0o700)

    def deleted() -> bool:
        fitting = classifier("search", place / "deleted")
        fsync = os.fsync

        def then_delete(handle: int) -> None:
            fsync(handle)
            os.fsync = fsync
            shutil.rmtree(place / "deleted")

        os.fsync = then_delete
        try:
            return np.array_equal(fitting.fit(x, y, u).predict_members(x), right)
        except InputError:
            raise
        finally:
            os.fsync = fsync

    tally.attempt("folder deleted", deleted, bool, longer=10)
