"""Malformed arguments to public functions, from their signatures: one bad value in a call that is right."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tally import Tally, blobs

import nu_ensembles as nu
from nu_ensembles import metrics
from nu_ensembles.datasets import read_table, split

BAD: tuple[Any, ...] = (
    *(None, True, -1, 0, 1.5, 2**70, -(2**70), float("nan"), float("inf"), 1e308, "", "text", b"bytes", "\0", "🙂"),
    *([], [1], [[1], [2, 3]], {}, {"a": 1}, (), set(), object(), complex(1, 1), range(3), slice(3), int, len),
    *(
        np.zeros(0),
        np.zeros((0, 3)),
        np.zeros((2, 3, 4, 5, 6)),
        np.full((20, 3), np.nan),
        np.array(["a", None], object),
    ),
    *(np.array(3), np.zeros(20, "datetime64[D]"), np.arange(20) - 7, np.full((20, 3), 1e300)),
)


def calls(
    x: np.ndarray, y: np.ndarray, probabilities: np.ndarray
) -> list[tuple[str, Callable[..., Any], dict[str, Any]]]:
    """Public functions, each with arguments that are right."""
    found: list[tuple[str, Callable[..., Any], dict[str, Any]]] = [
        ("random_labels", nu.random_labels, {"seed": 0, "n_points": 5, "n_classes": 3, "n_members": 2}),
        ("split", split, {"n_rows": 20, "sizes": {"train": 5}, "seed": 0}),
        ("read_table", read_table, {"path": "absent.csv"}),
        ("metrics.set_coverage", metrics.set_coverage, {"sets": probabilities > 0.2, "labels": y}),
        ("theory.expected_variance", nu.theory.expected_variance, {"n_members": 3, "n_classes": 3}),
    ]
    for name in sorted(each for each in dir(metrics) if not each.startswith("_")):
        function = getattr(metrics, name)
        if not inspect.isfunction(function):
            continue
        needed = [n for n, p in inspect.signature(function).parameters.items() if p.default is p.empty]
        right = dict(zip(needed, (probabilities, y), strict=False))
        try:
            function(**right)
        except (TypeError, ValueError):
            continue  # its arguments are others
        found.append((f"metrics.{name}", function, right))
    return found


def arguments(seconds: float, rng: np.random.Generator, place: Path, least: int) -> Tally:
    """Bad values at random places until the time is over."""
    tally = Tally("arguments", seconds)
    warnings.simplefilter("ignore")
    x, y, _ = blobs(rng)
    x, y = x[:20], y[:20]
    todo = calls(x, y, rng.dirichlet(np.ones(3), 20))
    estimators = [nu.EnsembleClassifier, nu.NuEnsembleClassifier]
    number = 0
    tally.start()
    while number < least or not tally.is_over:
        number += 1
        if number % 50 == 0:
            _estimator(tally, estimators[int(rng.integers(0, 2))], rng, (x, y))
            continue
        name, function, right = todo[int(rng.integers(0, len(todo)))]
        names = [
            n
            for n, p in inspect.signature(function).parameters.items()
            if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        bad = names[int(rng.integers(0, len(names)))], BAD[int(rng.integers(0, len(BAD)))]
        tally.attempt(f"{name}", lambda f=function, r=right, b=bad: f(**{**r, b[0]: b[1]}))
    return tally


def _estimator(tally: Tally, kind: Any, rng: np.random.Generator, rows: Any) -> None:
    """A classifier with a bad option; whatever cannot be used is refused before anything is trained."""
    names = [name for name in inspect.signature(kind).parameters if name not in ("run_folder", "resume")]
    bad = {names[int(rng.integers(0, len(names)))]: BAD[int(rng.integers(0, len(BAD)))]}
    right = {"n_members": 1, "max_iter": 1, "random_state": 0, "model_options": {"hidden": (4,)}}
    if kind is nu.NuEnsembleClassifier:
        right["beta"] = 0.01
    tally.attempt(f"{kind.__name__}", lambda: kind(**{**right, **bad}).fit(*rows).predict_proba(rows[0]), longer=10)
