"""Real processes, real signals at random moments: SIGKILL, SIGTERM, Ctrl-C; then the same command again.

Each is a process of its own that starts, compiles and trains, so there are few of them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from tally import Tally, blobs, tiny
from watching import left_over

import nu_ensembles as nu
from nu_ensembles.datasets import read_table

SIGNALS = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)
SAVING = """
import sys
import nu_ensembles as nu
from nu_ensembles import storage
from pathlib import Path
ensemble = nu.Ensemble.load(sys.argv[1])
for number in range(400):
    place = Path(sys.argv[2], str(number))
    if not place.exists():
        ensemble.save(place)
    storage.sweep(place.parent)
"""


class Job(NamedTuple):
    """A command, what it takes to go on with it, and what is then there."""

    name: str
    words: Callable[[Path], list[Any]]
    again: list[str]
    content: Callable[[Path], Any]


def signals(attempts: int, seconds: float, rng: np.random.Generator, place: Path) -> Tally:
    """Every job in turn, with every signal in turn."""
    place.mkdir(parents=True)
    tally = Tally("kills", attempts, seconds)
    # What was compiled is kept for the processes that follow: they are here to be killed, not to compile.
    os.environ |= {
        "JAX_COMPILATION_CACHE_DIR": str(place / "compiled"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
    }
    jobs = _jobs(place / "data", rng)
    right: dict[str, tuple[Any, float]] = {}
    for number in tally:
        job, which = jobs[number % len(jobs)], SIGNALS[(number // len(jobs)) % len(SIGNALS)]
        if job.name not in right:
            whole = place / f"whole-{job.name}"
            whole.mkdir()
            _started(job, whole).wait()
            begun = time.monotonic()
            (place / f"timed-{job.name}").mkdir()
            _started(job, place / f"timed-{job.name}").wait()
            right[job.name] = job.content(whole), time.monotonic() - begun
        folder = place / f"try-{number}"
        folder.mkdir()
        _one(tally, job, folder, which, rng.uniform(0.1, 1.0) * right[job.name][1], right[job.name][0])
        shutil.rmtree(folder)
    shutil.rmtree(place, ignore_errors=True)
    return tally


def _started(job: Job, folder: Path, again: bool = False) -> subprocess.Popen[str]:
    words = [sys.executable, *map(str, job.words(folder)), *(job.again if again else [])]
    return subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _one(tally: Tally, job: Job, folder: Path, which: signal.Signals, after: float, right: Any) -> None:
    kind = f"real, {which.name} to {job.name}"
    tally.tried[kind] += 1
    process = _started(job, folder)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(which)
    said = process.communicate()[1]
    # Before Python has begun to run our own code, Ctrl-C is its own.
    if "Traceback" in said and "KeyboardInterrupt" not in said:
        tally.fail(kind, f"after {after:.1f} s: {said.strip().splitlines()[-1]}")
        return
    again = (folder / "run" / "unfinished").exists()
    done = _started(job, folder, again)
    _, said = done.communicate()
    refused = "exists already" in said or "finished run" in said
    if done.returncode and not refused:
        tally.fail(kind, f"after {after:.1f} s cannot go on: {said.strip()[-200:]}")
    elif job.content(folder) != right:
        tally.fail(kind, f"after {after:.1f} s: other content")
    elif left_over(folder):
        tally.fail(kind, f"after {after:.1f} s: left over: {left_over(folder)[0].name}")


def _jobs(data: Path, rng: np.random.Generator) -> list[Job]:
    data.mkdir()
    x, y, u = blobs(rng)
    np.savez(data / "train.npz", X=x, y=y)
    np.savez(data / "more.npz", X=u)
    np.savez(data / "many.npz", X=np.tile(u, (4000, 1)))
    np.savez(data / "images.npz", X=rng.integers(0, 256, (300, 32, 32, 3), np.uint8), y=np.arange(300))
    tiny("search").fit(x, y, u).save(data / "model")
    cli = ["-m", "nu_ensembles.cli"]
    fit = [*cli, "fit", data / "train.npz", "--unlabeled", data / "more.npz", "--members", "2", "--hidden", "8"]
    fit += ["--max-iter", "300", "--cv", "2", "--checkpoint-seconds", "0", "--quiet", "--run-folder"]
    corrupt = ["--name", "fog", "--name", "glass_blur", "--severity", "1", "--severity", "3", "--quiet", "--out"]
    return [
        Job("fit", lambda to: [*fit, to / "run"], ["--resume"], lambda to: _model(to / "run" / "model", x)),
        Job(
            "predict",
            lambda to: [*cli, "predict", data / "model", data / "many.npz", "--out", to / "p.csv"],
            [],
            lambda to: read_table(to / "p.csv").X.sum(axis=0).tolist(),
        ),
        Job(
            "corrupt",
            lambda to: [*cli, "corrupt", data / "images.npz", *corrupt, to / "out"],
            [],
            lambda to: [_sum(path) for path in sorted((to / "out").iterdir())],
        ),
        Job(
            "save",
            lambda to: ["-c", SAVING, data / "model", to],
            [],
            lambda to: [_model(path, x) for path in sorted(to.iterdir())[::40]],
        ),
    ]


def _model(folder: Path, x: np.ndarray) -> Any:
    return nu.Ensemble.load(folder).predict_members(x).tolist()


def _sum(path: Path) -> Any:
    with np.load(path) as found:
        return path.name, int(found["X"].sum(dtype=np.int64))
