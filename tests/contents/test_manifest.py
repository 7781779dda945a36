"""A manifest with a valid seal is read into checked fields, or refused in a sentence that names the field."""

from __future__ import annotations

import datetime
import json
import os
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

import nu_ensembles as nu
from nu_ensembles import models, storage
from nu_ensembles.ensemble.files import MANIFEST, WEIGHTS
from nu_ensembles.errors import DamagedFileError, InputError
from nu_ensembles.storage.files import _seal

NETWORK = models.mlp(3, hidden=(8,))


def saved(folder: Path, **fields: Any) -> Path:
    keys = jax.random.split(jax.random.key(0), 2)
    variables = jax.vmap(lambda key: NETWORK.init(key, np.zeros((1, 4), np.float32)))(keys)
    params, state = models.split_variables(jax.tree.map(np.asarray, variables))
    made = {"model": NETWORK, "params": params, "model_state": state, "classes": np.arange(3), "row_shape": (4,)}
    nu.Ensemble(**{**made, **fields}).save(folder)
    return folder


@pytest.fixture(scope="module")
def model(tmp_path_factory) -> Path:
    return saved(tmp_path_factory.mktemp("saved") / "model", training={"dtype": "float32", "n_steps": 5})


def reseal(folder: Path, there: Path, change: Any) -> Path:
    """A copy of a model whose manifest says something else, with a valid seal."""
    manifest = storage.read_sealed_json(folder / MANIFEST, "The manifest")
    change(manifest)
    there.mkdir()
    (there / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes())
    storage.write_sealed_json(there / MANIFEST, manifest)
    return there


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", 0),
        ("temperature", float("nan")),
        ("temperature", "1"),
        ("temperature", 10**400),
        ("n_members", 3),
        ("n_networks", True),
        ("row_shape", [4, 10**12]),
        ("row_shape", []),
        ("row_shape", 4),
        ("classes", {"dtype": "<i8", "values": list(range(4))}),
        ("classes", {"dtype": "<i8", "values": [0, 1, 1]}),
        ("classes", {"dtype": "<i8", "values": [0, 1, 2.5]}),
        ("classes", {"dtype": "<U999999999", "values": ["a", "b", "c"]}),
        ("classes", {"dtype": "V8", "values": [0, 1, 2]}),
        ("classes", [0, 1, 2]),
        ("model", {"name": "mlp", "n_classes": 3}),
        ("model", {"name": "mlp", "n_classes": 3, "options": {"hidden": [8] * 5000}}),
        ("model", {"name": "mlp", "n_classes": 3, "options": {"hidden": [9]}}),
        ("model", {"name": "mlp", "n_classes": 3, "options": {"hidden": {"a": 1}}}),
        ("model", {"name": "wide_resnet", "n_classes": 3, "options": {"depth": 60004}}),
        ("columns", ["a", "b"]),
        ("columns", "abcd"),
        ("standardised", True),
        ("pixels", "no"),
        ("table", {"named": True, "columns": []}),
        ("training", []),
        ("training", {"dtype": "float99"}),
        ("history", {"step": 1}),
        ("weights", {"file": "/etc/passwd", "sha256": "0" * 64}),
        ("weights", {"file": "../weights.safetensors", "sha256": "0" * 64}),
        ("weights", {"file": WEIGHTS, "sha256": 5}),
        ("format", "1"),
        ("package", None),
    ],
)
def test_a_sealed_field_of_another_form_is_refused_in_a_sentence(
    model: Path, tmp_path: Path, field: str, value: object
) -> None:
    changed = reseal(model, tmp_path / "model", lambda manifest: manifest.update({field: value}))
    with pytest.raises(InputError, match=r"altered|restore|do not fit the network"):
        nu.Ensemble.load(changed)


@pytest.mark.parametrize(
    "field", ["format", "package", "model", "n_members", "row_shape", "classes", "temperature", "weights", "history"]
)
def test_a_field_that_is_missing_is_named(model: Path, tmp_path: Path, field: str) -> None:
    changed = reseal(model, tmp_path / "model", lambda manifest: manifest.pop(field))
    with pytest.raises(DamagedFileError, match=f"lacks '{field}'"):
        nu.Ensemble.load(changed)


@pytest.mark.parametrize("content", [b"", b"nonsense", b"[" * 100_000, b"[]", b'{"content": 5'])
def test_what_is_sealed_may_still_be_no_manifest(model: Path, tmp_path: Path, content: bytes) -> None:
    changed = reseal(model, tmp_path / "model", lambda manifest: None)
    head = b'{\n"content": ' + content
    (changed / MANIFEST).write_bytes(head + _seal(head))
    with pytest.raises(DamagedFileError, match=r"manifest\.json"):
        nu.Ensemble.load(changed)


def test_weights_that_are_no_numbers_are_refused(tmp_path: Path) -> None:
    params, _ = models.split_variables(NETWORK.init(jax.random.key(0), np.zeros((1, 4), np.float32)))
    broken = jax.tree.map(lambda leaf: np.full((1, *leaf.shape), np.nan, np.float32), params)
    folder = saved(tmp_path / "model", params=broken)
    with pytest.raises(DamagedFileError, match=r"The weights .*should be finite numbers"):
        nu.Ensemble.load(folder)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="pipes with names are POSIX")
@pytest.mark.parametrize("name", [MANIFEST, WEIGHTS])
def test_a_pipe_in_the_place_of_a_file_is_not_waited_for(model: Path, tmp_path: Path, name: str) -> None:
    changed = reseal(model, tmp_path / "model", lambda manifest: None)
    (changed / name).unlink()
    os.mkfifo(changed / name)
    with pytest.raises(DamagedFileError, match="no ordinary file"):
        nu.Ensemble.load(changed)


@pytest.mark.parametrize(
    "classes",
    [
        np.array(["2024-01-01", "2024-02-01", "NaT"], "datetime64[ns]"),
        np.array([1, 2, 3], "timedelta64[s]"),
        np.array([datetime.date(2024, 1, day) for day in (1, 2, 3)], object),
        np.array([datetime.datetime(2024, 1, day, 5, tzinfo=datetime.UTC) for day in (1, 2, 3)], object),
        np.array([2**63, 1, 2**64 - 1], np.uint64),
        np.array(["a", "b", "c\x00d"]),
    ],
    ids=["datetime64", "timedelta64", "date", "datetime", "uint64", "text"],
)
def test_dates_and_large_numbers_are_classes_like_others(tmp_path: Path, classes: np.ndarray) -> None:
    loaded = nu.Ensemble.load(saved(tmp_path / "model", classes=classes)).classes
    assert loaded.dtype == classes.dtype
    assert repr(loaded.tolist()) == repr(classes.tolist())


def test_mutations_of_a_sealed_manifest_are_refused_or_change_nothing(model: Path, tmp_path: Path) -> None:
    """A sample of `make torture`: every field gets every kind of value."""
    x = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    expected = nu.Ensemble.load(model).predict_members(x)
    manifest = storage.read_sealed_json(model / MANIFEST, "The manifest")
    strange: list[Any] = [None, True, -1, 0, 2**70, 1e308, "", "x", [], [[]], {}, {"": None}, float("inf")]
    folder = reseal(model, tmp_path / "model", lambda manifest: None)
    for field in manifest:
        for value in strange:
            storage.write_sealed_json(folder / MANIFEST, json.loads(json.dumps({**manifest, field: value})))
            try:
                loaded = nu.Ensemble.load(folder)
                members, mean = loaded.predict_members(x), loaded.predict_proba(x)
            except InputError:
                continue
            assert np.isfinite(mean).all(), (field, value)
            assert (members == expected).all(), (field, value)
