"""Bad values: something else altogether, or what is honest with a flaw."""

from __future__ import annotations

import datetime
import enum
import importlib
from collections import deque
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import scipy.sparse


class Color(enum.Enum):
    RED = 1


def deep(levels: int) -> list[Any]:
    """Lists within lists."""
    found: list[Any] = []
    for _ in range(levels):
        found = [found]
    return found


def ringed() -> list[Any]:
    """A list that holds itself."""
    found: list[Any] = [1]
    found.append(found)
    return found


def of_pandas() -> tuple[Any, ...]:
    """Where pandas is installed."""
    try:
        pd = importlib.import_module("pandas")
    except ModuleNotFoundError:
        return ()
    series = (
        pd.Series([1.0, 2.0]),
        pd.Series(["a", None]),
        pd.Series([1, None], dtype="Int64"),
        pd.Series([], dtype=float),
    )
    others = pd.Index([1, 2]), pd.Categorical(["a", "b"]), pd.DataFrame({"a": [1, 2]}), pd.DataFrame()
    return (pd.NA, pd.NaT, pd.Timestamp("2020"), *series, *others)


DATES = np.zeros(20, "datetime64[D]"), np.array(["2020"], "datetime64[ns]"), np.datetime64("2020-01-01")
REPEATED = np.lib.stride_tricks.as_strided(np.zeros(1), (20, 3), (0, 0))
BAD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 7, 1.5, -0.5, 2**31, 2**70, -(2**70), float("nan"), float("inf"), 1e308, 1e-320),
    *("", "text", "auto", "1", b"bytes", "\0", "a\nb", "🙂", "x" * 5000, "../x", [], [1], [[1], [2, 3]], ["a", None]),
    *({}, {"a": 1}, {1: 2}, {"hidden": -1}, (), (1, 2), set(), frozenset({1}), object(), complex(1, 1), range(3)),
    *(slice(3), int, len, lambda *_, **__: None, datetime.date(2020, 1, 1), datetime.timedelta(1), Ellipsis, open),
    *(np.zeros(0), np.zeros((0, 3)), np.zeros((2, 3, 4, 5, 6)), np.full((20, 3), np.nan), np.full((20, 3), 1e300)),
    *(np.array(3), np.array("a"), np.arange(20) - 7, np.array(["a", None], object), np.float16(2), *DATES),
    *(np.zeros((20, 3), complex), np.array([{}] * 3), np.ma.masked_all(3), np.zeros(3, [("a", int)]), Color.RED),
    *("\ud800", "é" * 300, b"", bytearray(2), memoryview(b"ab"), np.str_("nu"), np.bytes_(b"nu"), 10**400, -(10**5000)),
    *(Decimal("1.5"), Fraction(1, 3), np.timedelta64(1, "s"), np.float64(3), np.bool_(True), np.int64(3), Path("x")),
    *(np.array(2.5), np.array([3]), np.array(["a", "b"]), np.array(None), np.zeros(3, ">i4"), np.zeros((3, 3), bool)),
    *(deque([1, 2]), {1: 2}.keys(), {1: 2}.values(), iter(()), {"a", "b"}, {1, "a"}, frozenset({"x"}), deep(70)),
    *(deep(2000), ringed(), [[]], [[[]]], [None], [""], [np.zeros(2), "a"]),
    *(scipy.sparse.eye_array(3, format="csr"), jnp.zeros(3), jnp.float32(2), jax.random.key(0), np.dtype("float32")),
    *(np.full(20, 2**63, np.uint64), np.zeros((20, 3), np.float16), REPEATED, np.zeros((1,) * 32), np.zeros((20, 0))),
    *of_pandas(),
)


def bad_value(honest: Any, rng: np.random.Generator) -> Any:
    """Something else altogether, or what is honest with a flaw."""
    if honest is None or rng.random() < 0.6:
        return BAD[int(rng.integers(0, len(BAD)))]
    if isinstance(honest, np.ndarray):
        return _with_a_flaw(honest, rng)
    if isinstance(honest, list | tuple):
        values = list(honest) or [None]
        values[int(rng.integers(0, len(values)))] = BAD[int(rng.integers(0, len(BAD)))]
        return (values, values[:1], [*honest, *honest], [], honest[0] if honest else None)[int(rng.integers(0, 5))]
    if isinstance(honest, dict):
        odd = {**honest, next(iter(honest), "a"): BAD[int(rng.integers(0, len(BAD)))]}
        return (odd, {}, list(honest), {**honest, 3: 4})[int(rng.integers(0, 4))]
    if isinstance(honest, bool | int | float):
        numbers = (-honest, honest + 0.5, str(honest), [honest], np.array([honest]), honest * 10**9, np.int8(3))
        return numbers[int(rng.integers(0, len(numbers)))]
    return BAD[int(rng.integers(0, len(BAD)))]


def _with_a_flaw(honest: np.ndarray, rng: np.random.Generator) -> Any:
    flaws = (
        lambda a: _with_one(a, np.nan),
        lambda a: _with_one(a, np.inf),
        lambda a: _with_one(a, -1.0),
        lambda a: _with_one(a, 1e300),
        lambda a: a[..., None],
        lambda a: a[:0],
        lambda a: a[:1],
        lambda a: a[:-1],
        lambda a: a.T,
        lambda a: a.astype(object),
        lambda a: a.astype(str),
        lambda a: a.astype(bool),
        lambda a: a.astype(complex),
        lambda a: [*a.tolist()[:-1], [None]],
        lambda a: np.full_like(a, 0),
        lambda a: a.astype(np.float16),
        lambda a: np.ma.masked_array(a, np.ones(a.shape, bool)),
        lambda a: a.ravel(),
        lambda a: np.broadcast_to(a, (2, *a.shape)),
    )
    return flaws[int(rng.integers(0, len(flaws)))](honest)


def _with_one(array: np.ndarray, value: float) -> np.ndarray:
    array = array.astype(np.float64)
    array[(0,) * array.ndim] = value
    return array
