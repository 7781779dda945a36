"""Faults: no room at every write, a folder that cannot be written or goes away, two in one folder, no room in memory.

What fails says one sentence; nothing is lost: with room again the same work goes on to the same bits.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import os
import resource
import shutil
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from commands import RefusedError, _run, _study
from tally import Tally, blobs, tiny

import nu_ensembles as nu
from nu_ensembles import storage
from nu_ensembles.cli.application import main
from nu_ensembles.datasets import read_table
from nu_ensembles.errors import InputError
from nu_ensembles_studies.measure.tasks import KINDS

FITS = ("search", "joint", "procedure")
# What a write goes through; `open` and `mkdir` fail where something is to be made.
CALLS = ("fsync", "replace", "rename", "open", "mkdir")


@contextlib.contextmanager
def no_room_from(n: int, call: str, number: int = errno.ENOSPC) -> Iterator[list[int]]:
    """From the n-th call of a function of `os` that writes, the disk has no room (or cannot be written at all)."""
    real, calls = getattr(os, call), [0]

    def fails(*arguments: Any, **options: Any) -> Any:
        writes = call != "open" or arguments[1] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
        calls[0] += bool(writes)
        if writes and calls[0] >= n:
            raise OSError(number, os.strerror(number), arguments[0])
        return real(*arguments, **options)

    setattr(os, call, fails)
    try:
        yield calls
    finally:
        setattr(os, call, real)


@contextlib.contextmanager
def files_end_at(n_bytes: int) -> Iterator[None]:
    """No file may be longer: the system itself refuses the write."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (n_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def faults(attempts: int, seconds: float, rng: np.random.Generator, place: Path) -> Tally:
    """Each of the other faults first; then a fit with no room from some write on, again and again."""
    warnings.simplefilter("ignore")
    place.mkdir(parents=True)
    tally = Tally("faults", attempts, seconds)
    rows = blobs(rng)
    right = {kind: tiny(kind).fit(*rows).predict_members(rows[0]) for kind in FITS}
    commands = _commands(place / "data", rows, rng)
    with mock.patch.dict(KINDS, trajectory=_measured):
        for number, (name, call) in enumerate(commands.items()):
            _around_a_command(tally, name, call, place / f"c{number}", rng)
    _two_fits(tally, place, rows)
    _memory(tally, place, rng)
    points: list[tuple[str, str, int]] = []
    for kind in FITS:
        for call in (*CALLS, "unlink"):
            with no_room_from(10**9, call) as calls:
                tiny(kind, place / f"{kind}-{call}").fit(*rows)
            points += [(kind, call, n) for n in range(1, calls[0] + 1)]
    order = rng.permutation(len(points))
    for number in tally:
        kind, call, n = points[order[number % len(order)]]
        run = place / f"run-{number}"
        # A full disk lets go of what it has.
        which = 2 if call == "unlink" else int(rng.integers(0, 4))
        if which == 0:
            _deleted(tally, kind, n, run, right[kind], rows)
        else:
            fault = _fault(which, call, n, rng)
            _no_room(tally, kind, fault, run, right[kind], rows)
        shutil.rmtree(run, ignore_errors=True)
    shutil.rmtree(place, ignore_errors=True)
    return tally


def _fault(which: int, call: str, n: int, rng: np.random.Generator) -> tuple[str, Callable[[], Any]]:
    if which == 1:
        size = int(rng.integers(0, 6000))
        return "files cannot grow", lambda: files_end_at(size)
    if which == 2:
        return "read-only", lambda: no_room_from(n, call, errno.EROFS)
    return "disk full", lambda: no_room_from(n, call)


def _no_room(tally: Tally, kind: str, fault: Any, run: Path, right: np.ndarray, rows: Any) -> None:
    name, broken = fault

    def without() -> bool:
        with broken():
            found = tiny(kind, run).fit(*rows)
        return np.array_equal(found.predict_members(rows[0]), right)

    def again() -> bool:
        if (run / "model").exists() and not (run / "unfinished").exists():
            return np.array_equal(nu.Ensemble.load(run / "model").predict_members(rows[0]), right)
        return np.array_equal(tiny(kind, run, resume=True).fit(*rows).predict_members(rows[0]), right)

    tally.attempt(f"a fit: {name}", without, bool, longer=10)
    tally.attempt(f"a fit: {name}, then no more", again, bool, longer=10)


def _deleted(tally: Tally, kind: str, n: int, run: Path, right: np.ndarray, rows: Any) -> None:
    """The run folder goes away at some write."""
    real, calls = os.fsync, [0]

    def then_delete(handle: int) -> None:
        real(handle)
        calls[0] += 1
        if calls[0] == n:
            shutil.rmtree(run, ignore_errors=True)

    def fit() -> bool:
        with mock.patch.object(os, "fsync", then_delete):
            found = tiny(kind, run).fit(*rows)
        return np.array_equal(found.predict_members(rows[0]), right)

    tally.attempt("a fit: its folder is deleted", fit, bool, longer=10)


def _commands(data: Path, rows: Any, rng: np.random.Generator) -> dict[str, Callable[[Path], Any]]:
    """What writes, by name; into a folder, under the name `out`."""
    data.mkdir()
    x, y, u = rows
    np.savez(data / "train.npz", X=x, y=y)
    np.savez(data / "more.npz", X=u)
    np.savez(data / "images.npz", X=rng.integers(0, 256, (3, 8, 8, 3), np.uint8), y=np.arange(3))
    ensemble = tiny("search").fit(x, y, u).ensemble_
    ensemble.save(data / "model")
    options = ["--members", "2", "--hidden", "8", "--max-iter", "3", "--beta", "0.01", "--quiet"]
    fit = ["fit", data / "train.npz", "--unlabeled", data / "more.npz", *options]
    return {
        "fit --out": lambda to: _run(*fit, "--out", to / "out"),
        "fit --run-folder": lambda to: _run(*fit, "--run-folder", to / "out"),
        "predict --out": lambda to: _run("predict", data / "model", data / "more.npz", "--out", to / "out.csv"),
        "corrupt": lambda to: _run(
            "corrupt", data / "images.npz", "--name", "fog", "--severity", "1", "--quiet", "--out", to / "out"
        ),
        "save": lambda to: ensemble.save(to / "out"),
        "export": lambda to: ensemble.export(to / "out.onnx"),
        "study": lambda to: _study(to),
    }


def _around_a_command(tally: Tally, name: str, call: Any, place: Path, rng: np.random.Generator) -> None:
    """A command with no room, in a folder that is read-only, that another works in, and with nobody who listens."""
    refused = lambda _: False  # noqa: E731

    def said(broken: Any, to: Path) -> Callable[[], Any]:
        def attempt() -> Any:
            to.mkdir(parents=True)
            try:
                with broken:
                    return call(to)
            except RefusedError as error:
                raise InputError(str(error).rpartition("error: ")[2]) from None

        return attempt

    for at, function in enumerate(CALLS[:2] + CALLS[3:]):
        for number in (errno.ENOSPC, errno.EROFS):
            to = place / f"{at}-{number}"
            tally.attempt(
                f"{name}: no room at all", said(no_room_from(1, function, number), to), longer=10, example=function
            )
            tally.attempt(f"{name}: nothing is left of it", lambda to=to: not list(to.rglob(".*.partial")), bool)
            again = said(contextlib.nullcontext(), place / f"{at}-{number}-again")
            tally.attempt(f"{name}: then there is room", again, longer=10)
    tally.attempt(f"{name}: files cannot grow", said(files_end_at(100), place / "short"), refused, longer=10)
    if name in ("save", "export", "study"):
        return
    held = place / "held"
    held.mkdir()
    out = held / ("out.csv" if name.startswith("predict") else "out")
    if name == "fit --run-folder":
        out.mkdir()
    with storage.alone_in(out) if name == "fit --run-folder" else storage.claimed(out):
        tally.attempt(f"{name}: another is at it", lambda: _refusals(lambda: call(held)), refused, longer=10)
    for kind, stream in (("closed", _closed_pipe()), ("full", io.FileIO("/dev/full", "w"))):
        text = io.TextIOWrapper(io.BufferedWriter(stream), write_through=True)
        to = place / f"{kind}-output"
        to.mkdir()

        def with_output(text: Any = text, to: Path = to) -> bool:
            return _code_with_output(text, lambda: call(to)) and any(to.iterdir())

        tally.attempt(f"{name}: standard output is {kind}", with_output, bool, longer=10)


def _closed_pipe() -> io.FileIO:
    reader, writer = os.pipe()
    os.close(reader)
    return io.FileIO(writer, "w")


def _code_with_output(text: Any, call: Callable[[], Any]) -> bool:
    """Whether a command whose output goes nowhere did its work all the same."""
    import commands

    def to_text(*words: Any) -> None:
        before = os.dup(1)
        os.dup2(text.fileno(), 1)
        try:
            with mock.patch.object(sys, "stdout", text), contextlib.redirect_stderr(io.StringIO()):
                code = main([str(word) for word in words])
        finally:
            os.dup2(before, 1)
            os.close(before)
        if code:
            raise InputError(f"ended with {code}.")

    with mock.patch.object(commands, "_run", to_text), mock.patch.dict(globals(), _run=to_text):
        call()
    return True


def _refusals(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except RefusedError as error:
        raise InputError(str(error).rpartition("error: ")[2]) from None


def _two_fits(tally: Tally, place: Path, rows: Any) -> None:
    def fit(kind: str, run: Path) -> Any:
        return tiny(kind, run).fit(*rows)

    for kind in FITS:
        run = place / f"held-{kind}"
        run.mkdir()
        with storage.alone_in(run):
            call = functools.partial(fit, kind, run)
            tally.attempt("a fit: another is in its folder", call, lambda _: False, longer=10)


def _memory(tally: Tally, place: Path, rng: np.random.Generator) -> None:
    """Files that do not fit into what memory there is."""
    block = rng.normal(size=(2000, 50))
    np.savez(place / "large.npz", X=np.tile(block, (100, 1)), y=np.arange(200_000) % 3)
    lines = "\n".join(",".join(f"{value:.6f}" for value in row) for row in block[:500])
    header = ",".join(f"c{n}" for n in range(50))
    (place / "large.csv").write_text(header + "\n" + "\n".join([lines] * 100))
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * 4096
    before = resource.getrlimit(resource.RLIMIT_AS)
    for ending in ("npz", "csv"):
        for room in (1 << 20, 4 << 20, 8 << 20, 12 << 20):
            # Room that earlier reads have given back to this process can be used again.
            resource.setrlimit(resource.RLIMIT_AS, (in_use + room, before[1]))
            try:
                path = place / f"large.{ending}"
                tally.attempt(f"no room in memory for a file, {ending}", lambda p=path: read_table(p), longer=4)
            finally:
                resource.setrlimit(resource.RLIMIT_AS, before)


def _measured(cells: Any, how: Any) -> Any:
    from commands import _measured_at_once

    return _measured_at_once(cells, how)
