"""Kills: what lies on the disk at every file operation of a fit, and whether it goes on from there to the same bits.

A kill leaves what the operations before it had done. So the folder is copied before every operation of one fit, and
every copy is resumed: as many kills as there are operations, in one process. Real processes are sent real signals, too.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from tally import Tally, blobs

import nu_ensembles as nu

EVENTS = {"open", "os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.replace", "shutil.rmtree"}
# (what is watched, where copies go, how many there are)
_watched: dict[str, Any] = {}


def _copy_before(event: str, arguments: tuple[Any, ...]) -> None:
    if not _watched or event not in EVENTS or not arguments or _watched["busy"]:
        return
    path = arguments[0]
    reads = event == "open" and not (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR | os.O_CREAT)
    if reads or not isinstance(path, str | os.PathLike) or not os.fspath(path).startswith(_watched["folder"]):
        return
    _watched["busy"] = True
    try:
        shutil.copytree(_watched["folder"], _watched["copies"] / f"{_watched['n']:05d}", dirs_exist_ok=True)
        _watched["n"] += 1
    finally:
        _watched["busy"] = False


def classifier(kind: str, folder: Path | None, resume: bool = False) -> Any:
    """A small fit: with a search, or of a procedure."""
    options: dict[str, Any] = {
        "n_members": 2,
        "model_options": {"hidden": (8,)},
        "max_iter": 6,
        "batch_size": 8,
        "random_state": 0,
        "cv": 2,
        "run_folder": folder,
        "resume": resume,
        "checkpoint_seconds": 0,
    }
    if kind == "search":
        return nu.NuEnsembleClassifier(betas=(0.01, 0.1), **options)
    if kind == "joint":
        return nu.EnsembleClassifier("pac2", early_stopping=True, **options)
    return nu.EnsembleClassifier("self_training", **options)


def kills(seconds: float, rng: np.random.Generator, place: Path, least: int) -> Tally:
    """Copies of a fit before every operation, resumed in random order until the time is over."""
    tally = Tally("kills", seconds)
    x, y, u = blobs(rng)
    sys.addaudithook(_copy_before)
    todo, right = [], {}
    for kind in ("search", "joint", "procedure"):
        run, copies = place / kind / "run", place / kind / "copies"
        copies.mkdir(parents=True)
        right[kind] = classifier(kind, None).fit(x, y, u).predict_members(x)
        (place / kind / "run").mkdir()
        _watched.update(folder=str(run), copies=copies, n=0, busy=False)
        classifier(kind, run).fit(x, y, u)
        _watched.clear()
        todo += [(kind, copy) for copy in sorted(copies.iterdir())]
    tally.start()
    order = rng.permutation(len(todo))
    for number, at in enumerate(order):
        if tally.is_over and number >= least:
            break
        kind, copy = todo[at]
        _resume(tally, kind, copy, right[kind], (x, y, u))
    return tally


def _resume(tally: Tally, kind: str, copy: Path, right: np.ndarray, rows: Any) -> None:
    x, y, u = rows
    finished = (copy / "model").exists() and not (copy / "unfinished").exists()

    def call() -> bool:
        if finished:
            return np.array_equal(nu.Ensemble.load(copy / "model").predict_members(x), right)
        found = classifier(kind, copy, resume=True).fit(x, y, u).predict_members(x)
        left = [*copy.rglob(".*"), *(copy / "checkpoints").glob("*"), *copy.glob("unfinished")]
        return np.array_equal(found, right) and not left and (copy / "model" / "manifest.json").exists()

    tally.attempt(f"at a file operation of a fit with {kind}", call, bool, longer=10)
    shutil.rmtree(copy, ignore_errors=True)


def signals(seconds: float, rng: np.random.Generator, place: Path, least: int) -> Tally:
    """Real processes, real signals, at random moments; then resumed."""
    tally = Tally("signals", seconds)
    x, y, u = blobs(rng)
    place.mkdir(parents=True)
    np.savez(place / "train.npz", X=x, y=y)
    np.savez(place / "more.npz", X=u)
    fit = [
        sys.executable,
        "-m",
        "nu_ensembles.cli",
        "fit",
        str(place / "train.npz"),
        "--unlabeled",
        str(place / "more.npz"),
    ]
    fit += ["--members", "2", "--hidden", "8", "--max-iter", "300", "--cv", "2", "--checkpoint-seconds", "0", "--quiet"]
    whole = place / "whole"
    started = time.monotonic()
    subprocess.run([*fit, "--run-folder", str(whole)], check=True, capture_output=True)
    lasts = time.monotonic() - started
    right = nu.Ensemble.load(whole / "model").predict_members(x)
    tally.start()
    for number in range(10_000):
        if tally.is_over and number >= least:
            break
        which = (signal.SIGKILL, signal.SIGTERM, signal.SIGINT)[number % 3]
        run = place / f"run-{number}"
        _one_signal(tally, [*fit, "--run-folder", str(run)], run, which, rng.uniform(0.3, 1) * lasts, (x, right))
    return tally


def _one_signal(tally: Tally, command: list[str], run: Path, which: signal.Signals, after: float, rows: Any) -> None:
    x, right = rows
    kind = f"{which.name} to a process"
    tally.tried[kind] += 1
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        process.send_signal(which)
    said = process.communicate()[1]
    if "Traceback" in said:
        tally.fail(kind, said.strip().splitlines()[-1])
        return
    if not (run / "model").exists() or (run / "unfinished").exists():
        again = subprocess.run([*command, "--resume"], capture_output=True, text=True, check=False)
        if again.returncode:
            tally.fail(kind, f"cannot go on: {again.stderr}")
            return
    if not np.array_equal(nu.Ensemble.load(run / "model").predict_members(x), right):
        tally.fail(kind, "other bits")
    if [*run.rglob(".*"), *(run / "checkpoints").glob("*")]:
        tally.fail(kind, "something is left over")
