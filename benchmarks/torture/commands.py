"""Kills of what else writes: fit without a run folder, save, predict, corrupt, demo, study; then the same once more.

Simulated, like those of `kills.py`. What a demo and a study train keeps nothing on the way, and takes long: they are
given numbers that were there before, and what they write is killed.
"""

from __future__ import annotations

import contextlib
import functools
import io
import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import numpy as np
from tally import Tally, blobs, tiny
from watching import copied_before_each, left_over, torn

import nu_ensembles as nu
from nu_ensembles.cli.application import main
from nu_ensembles.datasets import read_table
from nu_ensembles_studies.declare.options import StudyOptions, StudyRunOptions
from nu_ensembles_studies.demo import run as demo_run
from nu_ensembles_studies.demo.result import DemoResult, DemoSettings
from nu_ensembles_studies.measure.tasks import KINDS, Outcome
from nu_ensembles_studies.run.study_run import run_study


class Command(NamedTuple):
    """Something that writes into a folder.

    call: does it, in the folder; a second time it goes on, or finds that all is there.
    content: what is then there, to be compared.
    before: puts into the folder what is there already.
    """

    name: str
    call: Callable[[Path], Any]
    content: Callable[[Path], Any]
    before: Callable[[Path], Any] = lambda _: None


class LostError(Exception):
    """What was there before is gone, and nothing has taken its place."""


class RefusedError(Exception):
    """The command line ended with 2."""


def commands(attempts: int, seconds: float, rng: np.random.Generator, place: Path) -> Tally:
    """Every command in turn, killed at a random file operation."""
    place.mkdir(parents=True)
    tally = Tally("kills", attempts, seconds)
    todo: list[tuple[Command, Path, Any]] = []
    with contextlib.ExitStack() as stack:
        for number, command in enumerate(all_commands(place / "data", rng, stack)):
            work = place / f"{number}"
            work.mkdir()
            command.before(work)
            found = copied_before_each(work, place / f"copies-{number}", functools.partial(command.call, work))
            right = command.content(work)
            todo += [(command, folder, right) for folder in found]
        order = [todo[at] for at in rng.permutation(len(todo))]
        for attempt in tally:
            command, copy, right = order[attempt % len(order)]
            # Tried again, because it may be torn at another byte.
            folder = place / f"try-{attempt}"
            shutil.copytree(copy, folder)
            torn(folder, rng)
            _again(tally, command, folder, right)
            shutil.rmtree(folder)
    shutil.rmtree(place, ignore_errors=True)
    return tally


def _again(tally: Tally, command: Command, folder: Path, right: Any) -> None:
    said: list[str] = []

    def call() -> bool:
        try:
            command.call(folder)
        except RefusedError as error:
            # All was there when it was killed: nothing else may be refused.
            if "exists already" not in str(error) and "finished run" not in str(error):
                said.append(f"cannot go on: {error}")
                return False
        left = left_over(folder)
        found = command.content(folder)
        said.append(f"left over: {left[0].name}" if left else "" if found == right else "other content")
        return not said[-1]

    kind = f"simulated, at a file operation of {command.name}"
    tally.attempt(kind, call, bool, longer=10, example=folder.name)
    if said and said[-1]:
        tally.examples.append(f"kills, {kind}: {said[-1]}")


def all_commands(data: Path, rng: np.random.Generator, stack: contextlib.ExitStack) -> Iterator[Command]:
    """The commands, on data that are written first."""
    data.mkdir()
    x, y, u = blobs(rng)
    np.savez(data / "train.npz", X=x, y=y)
    np.savez(data / "more.npz", X=u)
    np.savez(data / "images.npz", X=rng.integers(0, 256, (3, 8, 8, 3), np.uint8), y=np.arange(3))
    ensemble = tiny("search").fit(x, y, u).ensemble_
    ensemble.save(data / "model")

    def of_model(folder: Path) -> list[Any]:
        return nu.Ensemble.load(folder).predict_members(x).tolist()

    options = ["--members", "2", "--hidden", "8", "--max-iter", "3", "--beta", "0.01", "--quiet"]
    fit = ["fit", str(data / "train.npz"), "--unlabeled", str(data / "more.npz"), *options]
    yield Command("fit --out", lambda to: _run(*fit, "--out", to / "model"), lambda to: of_model(to / "model"))

    def with_folder(to: Path) -> None:
        places = ["--run-folder", to / "run", "--out", to / "model"]
        _run(*fit, *places, *(["--resume"] if (to / "run" / "unfinished").exists() else []))

    yield Command(
        "fit --run-folder --out", with_folder, lambda to: [of_model(to / "model"), of_model(to / "run/model")]
    )
    yield Command("save", lambda to: _save(ensemble, to / "model"), lambda to: of_model(to / "model"))
    predict = ["predict", data / "model", data / "more.npz", "--out"]
    for ending in ("csv", "npz", "parquet"):

        def predicted(to: Path, ending: str = ending) -> None:
            _run(*predict, to / f"p.{ending}")

        yield Command(f"predict --out p.{ending}", predicted, lambda to, ending=ending: _rows(to / f"p.{ending}"))
    corrupt = [
        "corrupt",
        data / "images.npz",
        "--name",
        "fog",
        "--name",
        "snow",
        "--severity",
        "1",
        "--severity",
        "3",
        "--quiet",
        "--out",
    ]
    yield Command("corrupt", lambda to: _run(*corrupt, to / "out"), lambda to: _images(to / "out"))
    settings = DemoSettings(
        n_deployed=1, deployed_passes=2, n_labels=30, n_unlabeled=40, n_members=2, hidden=(8,), last_step=12
    )
    result = demo_run.run_demo(1, 3, data / "demo", verbose=0, settings=settings, command="demo")
    stack.enter_context(mock.patch.object(demo_run, "run_demo", return_value=result))
    # Drawing its page takes a second; how it is written does not depend on what is drawn.
    stack.enter_context(mock.patch("nu_ensembles_studies.demo.page.demo_page", return_value={}))
    stack.enter_context(mock.patch("nu_ensembles.report.page.write_page", _page))
    demo = ["demo", "--overwrite", "--json", "--quiet", "--out"]

    def demonstrated(to: Path) -> None:
        if not any((to / name / "results.json").exists() for name in ("out", ".out.earlier")):
            raise LostError
        _run(*demo, to / "out")

    yield Command("demo --overwrite", demonstrated, _demo, lambda to: result.save(to / "out"))
    stack.enter_context(mock.patch.dict(KINDS, trajectory=_measured_at_once))
    yield Command("study", _study, _cells)


def _run(*words: Any) -> None:
    """A command line in this process; its output goes nowhere."""
    said = io.StringIO()
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(said):
        code = main([str(word) for word in words])
    if code:
        raise RefusedError(said.getvalue().strip().splitlines()[-1])


def _save(ensemble: nu.Ensemble, folder: Path) -> None:
    try:
        ensemble.save(folder)
    except nu.InputError as error:
        raise RefusedError(str(error)) from None


def _rows(path: Path) -> list[Any]:
    if path.suffix == ".npz":
        with np.load(path) as found:
            return [(name, found[name].tolist()) for name in found.files]
    table = read_table(path)
    return [table.feature_names, table.X.tolist()]


def _images(folder: Path) -> list[Any]:
    found = []
    for path in sorted(folder.iterdir()):
        with np.load(path) as inside:
            found.append((path.name, inside["X"].tolist(), inside["y"].tolist()))
    return found


def _page(path: Path, _: Any) -> None:
    path.write_bytes(b"a page")


def _demo(folder: Path) -> list[Any]:
    found = DemoResult.load(folder / "out")
    return [found.to_dict(), found.probabilities.tolist(), (folder / "out" / "report.html").exists()]


def _study(folder: Path) -> None:
    options = StudyOptions(datasets=("digits",), models=("mlp",), methods=("standard", "nu"), n=(50,), seeds=2)
    try:
        run_study("table1", options, folder / "study", StudyRunOptions(verbose=0), page=False)
    except nu.InputError as error:
        raise RefusedError(str(error)) from None


def _cells(folder: Path) -> list[Any]:
    """The cells of a study, but for how long they took."""
    cells = json.loads((folder / "study" / "results.json").read_text())["cells"]
    return [{name: value for name, value in cell.items() if name != "seconds"} for cell in cells]


def _measured_at_once(cells: Any, _: Any) -> Iterator[Any]:
    """Tasks whose numbers depend on the cell alone."""
    for cell in cells:

        def task(report: Any, cell: Any = cell) -> Iterator[Outcome]:
            scores = {"test": {"nll": 1.0 + cell.seed + 0.1 * len(cell.method)}}
            yield Outcome(cell, {"epochs": {str(epoch): scores for epoch in cell.epochs}})

        yield [cell], task
