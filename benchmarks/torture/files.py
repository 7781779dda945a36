"""Damaged and hostile files: bytes are changed, sealed content is changed and sealed again, other files take the place.

What is read back is refused in one sentence, or it gives the same numbers; from content that was sealed again it may be
other honest numbers: probabilities that are finite and sum to one.
"""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from kills import classifier
from tally import Tally, blobs

import nu_ensembles as nu
from nu_ensembles import storage
from nu_ensembles.datasets import read_table

VALUES: tuple[Any, ...] = (
    *(None, True, -1, 0, 1, 2**31, 2**70, 1e308, float("nan"), float("inf"), -0.5, "", "x" * 300, "../../etc/passwd"),
    *([], [1], [[]], {}, {"a": 1}, [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]]),
)


def changed_bytes(raw: bytes, rng: np.random.Generator) -> bytes:
    """A file with a flipped, lost, doubled or foreign part."""
    at, n = int(rng.integers(0, max(1, len(raw)))), int(rng.integers(1, 9))
    match int(rng.integers(0, 5)):
        case 0:
            return raw[:at] + bytes([raw[at] ^ (1 << int(rng.integers(0, 8)))]) + raw[at + 1 :] if raw else b"x"
        case 1:
            return raw[:at]
        case 2:
            return raw[:at] + raw[at + n :]
        case 3:
            return raw[:at] + raw[at : at + n] + raw[at:]
        case _:
            return raw[:at] + rng.bytes(n) + raw[at + n :]


def changed_value(entry: Any, rng: np.random.Generator) -> Any:
    """A JSON value with one of its parts gone or something else."""
    found = copy.deepcopy(entry)
    node, path = found, []
    while isinstance(node, dict | list) and node and (not path or rng.random() < 0.7):
        keys = list(node) if isinstance(node, dict) else range(len(node))
        path.append((node, keys[int(rng.integers(0, len(keys)))]))
        node = node[path[-1][1]]
    if not path:
        return VALUES[int(rng.integers(0, len(VALUES)))]
    parent, key = path[-1]
    if rng.random() < 0.2:
        del parent[key]
    else:
        parent[key] = VALUES[int(rng.integers(0, len(VALUES)))]
    return found


def files(seconds: float, rng: np.random.Generator, place: Path, least: int) -> Tally:
    """Every kind of file in turn, until the time is over."""
    tally = Tally("files", seconds)
    x, y, u = blobs(rng)
    place.mkdir(parents=True)
    model = place / "model"
    fitted = classifier("search", None)
    fitted.set_params(calibration="temperature").fit(x, y, u)
    fitted.save(model)
    right = nu.Ensemble.load(model).predict_proba(x)
    kinds: list[Callable[[], None]] = [
        lambda: _model(tally, model, rng, (x, right)),
        lambda: _sealed_again(tally, model, rng, x),
        lambda: _foreign(tally, model, rng),
        *(_data(tally, place, rng, x, y, ending) for ending in ("csv", "npz", "parquet", "csv.gz")),
        lambda: _yaml(tally, place, rng),
        lambda: _json(tally, place, rng),
    ]
    number = 0
    tally.start()
    while number < least or not tally.is_over:
        kinds[number % len(kinds)]()
        number += 1
    return tally


def _replaced(path: Path, raw: bytes, call: Callable[[], None]) -> None:
    """Calls something while a file has another content."""
    before = path.read_bytes()
    path.write_bytes(raw)
    try:
        call()
    finally:
        path.write_bytes(before)


def _model(tally: Tally, model: Path, rng: np.random.Generator, rows: Any) -> None:
    x, right = rows
    path = model / ("manifest.json", "weights.safetensors")[int(rng.integers(0, 2))]

    def load() -> None:
        tally.attempt(
            "model, bytes", lambda: nu.Ensemble.load(model).predict_proba(x), lambda p: np.array_equal(p, right)
        )

    _replaced(path, changed_bytes(path.read_bytes(), rng), load)


def _sealed_again(tally: Tally, model: Path, rng: np.random.Generator, x: np.ndarray) -> None:
    path = model / "manifest.json"
    before = path.read_bytes()
    storage.write_sealed_json(path, changed_value(json.loads(before)["content"], rng))

    def honest(p: np.ndarray) -> bool:
        return bool(np.isfinite(p).all() and np.allclose(p.sum(axis=1), 1, atol=1e-3))

    try:
        tally.attempt("model, sealed again", lambda: nu.Ensemble.load(model).predict_proba(x), honest)
    finally:
        path.write_bytes(before)


def _foreign(tally: Tally, model: Path, rng: np.random.Generator) -> None:
    """A pipe, a folder, a link to nowhere in the place of a file."""
    path = model / ("manifest.json", "weights.safetensors")[int(rng.integers(0, 2))]
    aside = path.rename(path.with_suffix(".aside"))
    which = int(rng.integers(0, 3))
    (os.mkfifo, os.mkdir, lambda p: os.symlink("nowhere", p))[which](path)
    try:
        tally.attempt("model, no file", lambda: nu.Ensemble.load(model), lambda _: False)
    finally:
        shutil.rmtree(path) if which == 1 else path.unlink()
        aside.rename(path)


def _data(
    tally: Tally, place: Path, rng: np.random.Generator, x: np.ndarray, y: np.ndarray, ending: str
) -> Callable[[], None]:
    import gzip

    path = place / f"rows.{ending}"
    if ending == "npz":
        np.savez_compressed(path, X=x, y=y)
    elif ending == "parquet":
        import pyarrow as pa
        import pyarrow.parquet as pq

        pq.write_table(pa.table({**{f"x{i}": x[:, i] for i in range(4)}, "y": y}), path)
    else:
        lines = ["a,b,c,d,y", *(",".join([*map(str, row), str(label)]) for row, label in zip(x, y, strict=True))]
        raw = "\n".join(lines).encode()
        path.write_bytes(gzip.compress(raw) if ending == "csv.gz" else raw)
    raw = path.read_bytes()

    def attempt() -> None:
        path.write_bytes(changed_bytes(raw, rng))
        # Text has no checksum: another digit is another number, and that is not to be seen.
        tally.attempt(f"rows, {ending}", lambda: read_table(path, None if ending == "npz" else "y"))

    return attempt


def _yaml(tally: Tally, place: Path, rng: np.random.Generator) -> None:
    path = place / "config.yaml"
    texts = (
        b"max_iter: 3\nbetas: [0.1, 0.2]\n",
        b"[" * 3000,
        b"a: &a [1]\nb: [*a, *a]\n",
        b"x: 2001-99-99\n",
        b"{" * 99,
    )
    path.write_bytes(changed_bytes(texts[int(rng.integers(0, len(texts)))], rng))
    tally.attempt("yaml", lambda: storage.read_yaml(path, "The configuration"))


def _json(tally: Tally, place: Path, rng: np.random.Generator) -> None:
    path = place / "results.json"
    content = {"accuracy": 0.912, "runs": [1, 2, 3], "name": "digits"}
    storage.write_stamped_json(path, content)
    path.write_bytes(changed_bytes(path.read_bytes(), rng))

    def same(found: Any) -> bool:
        return isinstance(found[0], dict) and all(found[0].get(name) == value for name, value in content.items())

    tally.attempt("results, bytes", lambda: storage.read_stamped_json(path, "The results"), same)
