"""Damaged and hostile files: bytes are changed, sealed content is changed and sealed again, other files take the place.

What is read back is refused in one sentence, or it gives the same numbers; from content that was sealed again it may be
other honest numbers: probabilities that are finite and sum to one.
"""

from __future__ import annotations

import json
import shutil
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from changes import changed_bytes, changed_value, with_content, with_something_else
from data_files import damaged_data, hostile
from tally import Tally, blobs, tiny
from watching import copied_before_each

import nu_ensembles as nu
from nu_ensembles import storage
from nu_ensembles.engine.checkpoints import CheckpointFolder
from nu_ensembles.tables import RawTable
from nu_ensembles_studies.demo import run as demo_run
from nu_ensembles_studies.demo.result import DemoResult, DemoSettings
from nu_ensembles_studies.run.reading import read_results

Attempt = Callable[[], None]
A_SAMPLE = 100
# How often a kind is tried; 1 where nothing is said. What trains or predicts anew takes longer.
OFTEN = {"a run folder, resumed": 0.06, "images, png": 0.5, "images, jpg": 0.5, "model, sealed again": 2.0}


def files(attempts: int, seconds: float, rng: np.random.Generator, place: Path) -> Tally:
    """Every kind of file at random; before that those that are made to hurt, each once."""
    warnings.simplefilter("ignore")
    place.mkdir(parents=True)
    tally = Tally("files", attempts, seconds)
    rows = blobs(rng)
    kinds = damaged_data(tally, place, rng, rows) | _models(tally, place, rng, rows) | _states(tally, place, rng, rows)
    # Not in a small sample: they take some ten seconds before the first attempt.
    if attempts >= A_SAMPLE:
        for name, read in hostile(place / "hostile", rng):
            tally.honest["made to hurt"] = 0
            tally.attempt("made to hurt", read, lambda _: True, longer=2, example=name)
        shutil.rmtree(place / "hostile")
        kinds |= _studies(tally, place, rng)
    names = list(kinds)
    weights = np.array([OFTEN.get(name, 1.0) for name in names])
    for _ in tally:
        kinds[names[int(rng.choice(len(names), p=weights / weights.sum()))]]()
    shutil.rmtree(place, ignore_errors=True)
    return tally


def _honest(p: np.ndarray) -> bool:
    return bool(np.isfinite(p).all() and np.allclose(p.sum(axis=-1), 1, atol=1e-3))


def _models(tally: Tally, place: Path, rng: np.random.Generator, rows: Any) -> dict[str, Attempt]:
    """Models of every form: scaled numbers, a table with a forest beside it, masks of dropout, a calibrator."""
    x, y, u = rows
    words = RawTable.of_numbers(x, ["a", "b", "c", "d"])
    options: dict[str, Any] = {
        "n_members": 2,
        "max_iter": 2,
        "model_options": {"hidden": (8,)},
        "random_state": 0,
        "cv": 2,
    }
    fitted = {
        "numbers": (tiny("search").set_params(calibration="temperature").fit(x, y, u), x),
        "table": (
            nu.EnsembleClassifier(**options, companion="forest", calibration="vector_scaling").fit(words, y),
            words,
        ),
        "masks": (
            nu.EnsembleClassifier("mc_dropout", **options | {"model_options": {"hidden": (8,), "dropout": 0.2}}).fit(
                x, y
            ),
            x,
        ),
    }
    models = []
    for name, (classifier, inputs) in fitted.items():
        classifier.save(place / name)
        kind = "model, bytes"
        right = tally.measure(kind, lambda n=name, i=inputs: nu.Ensemble.load(place / n).predict_proba(i))
        tally.honest["model, sealed again"] = tally.honest[kind]
        models.append((place / name, inputs, right))

    def drawn() -> tuple[Path, Any, np.ndarray, Path]:
        model, inputs, right = models[int(rng.integers(0, len(models)))]
        return model, inputs, right, model / ("manifest.json", "weights.safetensors")[int(rng.integers(0, 2))]

    def by_bytes() -> None:
        model, inputs, right, path = drawn()
        with with_content(path, changed_bytes(path.read_bytes(), rng)):
            tally.attempt(
                "model, bytes",
                lambda: nu.Ensemble.load(model).predict_proba(inputs),
                lambda p: np.array_equal(p, right),
            )

    def sealed_again() -> None:
        model, inputs, _, _ = drawn()
        path = model / "manifest.json"
        before = path.read_bytes()
        changed, what = changed_value(json.loads(before)["content"], rng)
        storage.write_sealed_json(path, changed)
        try:
            tally.attempt(
                "model, sealed again",
                lambda: nu.Ensemble.load(model).predict_proba(inputs),
                _honest,
                example=f"{model.name}, {what}",
            )
        finally:
            path.write_bytes(before)

    def arrays_sealed_again() -> None:
        model, inputs, _, _ = drawn()
        weights, path = model / "weights.safetensors", model / "manifest.json"
        arrays = {name: array.copy() for name, array in storage.load_arrays(weights, None).items()}
        name = sorted(arrays)[int(rng.integers(0, len(arrays)))]
        arrays = _with_another(arrays, name, rng)
        before = path.read_bytes()
        with with_content(weights, weights.read_bytes()):
            checksum = storage.save_arrays(weights, arrays)
            content = json.loads(before)["content"]
            content["weights"]["sha256"] = checksum
            storage.write_sealed_json(path, content)
            try:
                kind = "model, arrays sealed again"
                tally.attempt(kind, lambda: nu.Ensemble.load(model).predict_proba(inputs), _honest, example=name)
            finally:
                path.write_bytes(before)

    def something_else() -> None:
        *_, path = drawn()
        with with_something_else(path, int(rng.integers(0, 4))):
            tally.attempt("model, no file", lambda: nu.Ensemble.load(path.parent), lambda _: False)

    return {
        "model, bytes": by_bytes,
        "model, sealed again": sealed_again,
        "model, arrays sealed again": arrays_sealed_again,
        "model, no file": something_else,
    }


def _with_another(arrays: dict[str, np.ndarray], name: str, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Arrays of which one is gone, or has another shape, type or value."""
    array = arrays[name]
    match int(rng.integers(0, 6)):
        case 0:
            del arrays[name]
        case 1:
            arrays[name] = array[..., None]
        case 2:
            arrays[name] = array.astype(np.int64)
        case 3:
            arrays[name] = array.astype(np.float64) * np.inf
        case 4:
            arrays[name] = array[:-1] if array.ndim else array
        case _:
            values = array.reshape(-1).copy()
            values[: int(rng.integers(1, 4))] = (np.array([-1, 10**9, 0]).astype(values.dtype))[int(rng.integers(0, 3))]
            arrays[name] = values.reshape(array.shape)
    return arrays


def _states(tally: Tally, place: Path, rng: np.random.Generator, rows: Any) -> dict[str, Attempt]:
    """Checkpoints as they are read, and whole run folders as they are resumed."""
    kept = CheckpointFolder(place / "checkpoints", 0)
    fingerprint = "0" * 64
    evaluations = {10: [np.ones((2, 3)), np.zeros((2, 3))]}
    kept.save(fingerprint, [{"w": np.arange(6.0)}], None, 5, evaluations)
    index, arrays = kept.index, next(kept.folder.glob("*.safetensors"))

    def read() -> Any:
        found = CheckpointFolder(kept.folder, 0, resume=True).load(fingerprint, 100, 4)
        return None if found is None else (found.step, found.finished(0, {"w": np.zeros(6)}), found.evaluations())

    right = tally.measure("checkpoint", read)

    def same(found: Any) -> bool:
        return str(found) == str(right)

    def checkpoint() -> None:
        path = (index, arrays)[int(rng.integers(0, 2))]
        raw = path.read_bytes()
        if path == index and rng.random() < 0.5:
            with with_content(path, raw):
                changed, what = changed_value(json.loads(raw)["content"], rng)
                storage.write_sealed_json(path, changed)
                tally.attempt("checkpoint", read, example=what)
        else:
            with with_content(path, changed_bytes(raw, rng)):
                tally.attempt("checkpoint", read, same)

    (place / "whole").mkdir()
    wanted = tiny("search").fit(*rows).predict_members(rows[0])
    lives = copied_before_each(place / "whole", place / "lives", lambda: tiny("search", place / "whole").fit(*rows))
    lives = [life for life in lives if not (life / "model").exists() and any(life.rglob("*.safetensors"))]

    def resumed() -> None:
        life = lives[int(rng.integers(0, len(lives)))]
        folder = place / "life"
        shutil.copytree(life, folder)
        found = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
        path, what = found[int(rng.integers(0, len(found)))], "its bytes"
        sealed = path.suffix == ".json" and b'"content"' in path.read_bytes() and rng.random() < 0.5
        if sealed:
            changed, what = changed_value(json.loads(path.read_bytes())["content"], rng)
            storage.write_sealed_json(path, changed)
        else:
            path.write_bytes(changed_bytes(path.read_bytes(), rng))

        def right(members: np.ndarray) -> bool:
            return _honest(members) if sealed else np.array_equal(members, wanted)

        fit = tiny("search", folder, resume=True).fit
        kind, example = "a run folder, resumed", f"{path.name}, {what}"
        tally.attempt(kind, lambda: fit(*rows).predict_members(rows[0]), right, longer=10, example=example)
        shutil.rmtree(folder)

    return {"checkpoint": checkpoint, "a run folder, resumed": resumed}


def _studies(tally: Tally, place: Path, rng: np.random.Generator) -> dict[str, Attempt]:
    """Results of a study, its folder, and a demo."""
    from commands import _measured_at_once, _study

    from nu_ensembles_studies.measure.tasks import KINDS

    with mock.patch.dict(KINDS, trajectory=_measured_at_once):
        _study(place)
    settings = DemoSettings(
        n_deployed=1, deployed_passes=2, n_labels=30, n_unlabeled=40, n_members=2, hidden=(8,), last_step=12
    )
    result = demo_run.run_demo(1, 3, place / "demo-run", verbose=0, settings=settings, command="demo")
    with (
        mock.patch("nu_ensembles_studies.demo.page.demo_page", return_value={}),
        mock.patch("nu_ensembles.report.page.write_page", lambda path, _: path.write_bytes(b"a page")),
    ):
        result.save(place / "demo")
    study = place / "study"
    read: dict[str, tuple[list[Path], Callable[[], Any]]] = {
        "results of a study": ([study / "results.json"], lambda: _cells(study / "results.json")),
        "folder of a study": (
            [study / "study.json", *sorted((study / "cells").iterdir())],
            lambda: _cells(study),
        ),
        "demo": (
            [place / "demo" / "results.json", place / "demo" / "predictions.safetensors"],
            lambda: DemoResult.load(place / "demo").to_dict(),
        ),
    }

    def attempt(kind: str) -> None:
        paths, call = read[kind]
        path = paths[int(rng.integers(0, len(paths)))]
        raw = path.read_bytes()
        with with_content(path, raw):
            if path.suffix == ".json" and rng.random() < 0.5:
                what = _written_again(path, rng)
                tally.attempt(kind, call, example=f"{path.name}, {what}")
            else:
                path.write_bytes(changed_bytes(raw, rng))
                # A damaged cell counts as not done.
                right = rights[kind] if path.parent.name != "cells" else None
                tally.attempt(kind, call, lambda found: right is None or found == right, example=path.name)

    rights = {kind: tally.measure(kind, call) for kind, (_, call) in read.items()}
    return {kind: lambda kind=kind: attempt(kind) for kind in read}


def _cells(path: Path) -> list[Any]:
    return [record.to_dict() for record in read_results(path).declared()]


def _written_again(path: Path, rng: np.random.Generator) -> str:
    """Changes a value of a file, which has then a right checksum again; says which."""
    entry = json.loads(path.read_bytes())
    if "content" in entry:
        changed, what = changed_value(entry["content"], rng)
        storage.write_sealed_json(path, changed)
        return what
    changed, what = changed_value({name: value for name, value in entry.items() if name != "sha256"}, rng)
    storage.write_stamped_json(path, changed if isinstance(changed, dict) else {"cells": changed})
    return what
