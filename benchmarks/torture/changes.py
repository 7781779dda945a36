"""What may happen to a file: bytes are lost, changed or doubled, a value becomes another, something takes its place."""

from __future__ import annotations

import contextlib
import copy
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

VALUES: tuple[Any, ...] = (
    *(
        None,
        True,
        -1,
        0,
        1,
        3,
        2**31,
        2**53,
        2**70,
        1e308,
        1e-320,
        float("nan"),
        float("inf"),
        -0.5,
        0.5,
        "",
        "a",
        "\0",
    ),
    *("x" * 300, "../../etc/passwd", "/dev/zero", "mlp", "f" * 64, [], [1], [[]], [None], {}, {"a": 1}, ["a"] * 3),
    *(
        [[[[[[[[[[[[[[[[[[[[]]]]]]]]]]]]]]]]]]]],
        [0.5, float("nan"), 0.5],
        [2**40],
        {"dtype": "<U99999999", "values": ["a"]},
    ),
)


def changed_bytes(raw: bytes, rng: np.random.Generator) -> bytes:
    """A file with a flipped, lost, doubled or foreign part."""
    at, n = int(rng.integers(0, max(1, len(raw)))), int(rng.integers(1, 9))
    match int(rng.integers(0, 6)):
        case 0:
            return raw[:at] + bytes([raw[at] ^ (1 << int(rng.integers(0, 8)))]) + raw[at + 1 :] if raw else b"x"
        case 1:
            return raw[:at]
        case 2:
            return raw[:at] + raw[at + n :]
        case 3:
            return raw[:at] + raw[at : at + n] + raw[at:]
        case 4:
            return raw[:at] + bytes(n) + raw[at + n :]
        case _:
            return raw[:at] + rng.bytes(n) + raw[at + n :]


def changed_value(entry: Any, rng: np.random.Generator) -> tuple[Any, str]:
    """A JSON value with one of its parts gone or something else, and words that say which and what."""
    found = copy.deepcopy(entry)
    node, path = found, []
    while isinstance(node, dict | list) and node and (not path or rng.random() < 0.7):
        keys = list(node) if isinstance(node, dict) else range(len(node))
        path.append((node, keys[int(rng.integers(0, len(keys)))]))
        node = node[path[-1][1]]
    where = ".".join(str(key) for _, key in path) or "all of it"
    if not path:
        found = VALUES[int(rng.integers(0, len(VALUES)))]
        return found, f"{where}={found!r:.60}"
    parent, key = path[-1]
    if rng.random() < 0.2:
        del parent[key]
        return found, f"{where} is gone"
    parent[key] = VALUES[int(rng.integers(0, len(VALUES)))]
    return found, f"{where}={parent[key]!r:.60}"


@contextlib.contextmanager
def with_content(path: Path, raw: bytes) -> Iterator[None]:
    """A file has another content for a while."""
    before = path.read_bytes()
    path.write_bytes(raw)
    try:
        yield
    finally:
        path.write_bytes(before)


@contextlib.contextmanager
def with_something_else(path: Path, which: int) -> Iterator[None]:
    """A pipe, a folder, a link to nowhere or to itself in the place of a file for a while."""
    aside = path.rename(path.with_name(f"{path.name}.aside"))
    (os.mkfifo, os.mkdir, lambda p: os.symlink("nowhere", p), lambda p: os.symlink(p, p))[which](path)
    try:
        yield
    finally:
        if which == 1:
            shutil.rmtree(path)
        else:
            path.unlink()
        aside.rename(path)
