"""Malformed arguments to every public function: one bad value at a time in a call that is right."""

from __future__ import annotations

import datetime
import inspect
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from public import World, called_names, parameters_of
from tally import Tally

import nu_ensembles as nu

BAD: tuple[Any, ...] = (
    *(None, True, False, -1, 0, 1, 7, 1.5, -0.5, 2**31, 2**70, -(2**70), float("nan"), float("inf"), 1e308, 1e-320),
    *("", "text", "auto", "1", b"bytes", "\0", "a\nb", "🙂", "x" * 5000, "../x", [], [1], [[1], [2, 3]], ["a", None]),
    *({}, {"a": 1}, {1: 2}, {"hidden": -1}, (), (1, 2), set(), frozenset({1}), object(), complex(1, 1), range(3)),
    *(slice(3), int, len, lambda *_, **__: None, datetime.date(2020, 1, 1), datetime.timedelta(1), Ellipsis),
    *(
        np.zeros(0),
        np.zeros((0, 3)),
        np.zeros((2, 3, 4, 5, 6)),
        np.full((20, 3), np.nan),
        np.array(["a", None], object),
    ),
    *(np.array(3), np.array("a"), np.zeros(20, "datetime64[D]"), np.arange(20) - 7, np.full((20, 3), 1e300)),
    *(np.zeros((20, 3), complex), np.array([{}] * 3), np.ma.masked_all(3), np.zeros(3, [("a", int)]), np.float16(2)),
)
# These train, draw a page or compile: their share of the attempts is smaller than that of the others.
SLOW = {"fit": 0.15, "EnsembleClassifier": 0.08, "NuEnsembleClassifier": 0.08, "EnsembleClassifier.fit": 0.1}
SLOW |= {"NuEnsembleClassifier.fit": 0.1, "EnsembleClassifier.report": 0.02, "NuEnsembleClassifier.report": 0.02}
SLOW |= {"Ensemble.export": 0.05, "Ensemble.compile": 0.05, "Ensemble.to_torch": 0.05, "corruptions.corrupt_all": 0.2}
SLOW |= {"tune": 0.05}
SLOW |= {"calibration.choose_calibrator": 0.2, "Blend.fit": 0.1, "TemperedForest.fit": 0.3}
ESTIMATORS = ("Blend", "EnsembleClassifier", "NuEnsembleClassifier", "TemperedForest")
# Functions of the user: what they raise is theirs.
OWN_CODE = ("apply", "factory", "init")
# How much is to be done: who asks for more than can be done in a life is not refused.
WORK = (
    "cv",
    "epochs",
    "max_iter",
    "n_estimators",
    "n_members",
    "n_points",
    "n_resamples",
    "n_stops",
    "n_trials",
    "steps",
)
# Of the options of an estimator: these are places, which are tried in other campaigns.
PLACES = ("run_folder", "resume")


def arguments(attempts: int, seconds: float, rng: np.random.Generator, place: Path) -> Tally:
    """One bad value at a random place of a random public function, again and again."""
    warnings.simplefilter("ignore")
    world = World(place)
    names = called_names()
    weights = np.array([SLOW.get(name, 1.0) for name in names])
    tally = Tally("arguments", attempts, seconds)
    for name in names:
        _attempt(tally, world, name, None, None)
    for _ in tally:
        name = names[int(rng.choice(len(names), p=weights / weights.sum()))]
        function, right = world.call(name)
        parameters = [each for each in parameters_of(function, right) if each not in PLACES]
        if not parameters:
            _attempt(tally, world, name, None, None)
            continue
        parameter = parameters[int(rng.integers(0, len(parameters)))]
        value = bad_value(right.get(parameter), rng)
        if parameter in OWN_CODE and callable(value):
            continue
        if parameter in WORK and isinstance(value, int | float) and not -1e4 < value < 1e4:
            continue
        _attempt(tally, world, name, parameter, value)
    shutil.rmtree(place, ignore_errors=True)
    return tally


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


def _attempt(tally: Tally, world: World, name: str, parameter: str | None, value: Any) -> None:
    """Calls a function with a bad value, or with none; that first time tells how much memory it takes."""
    function, right = world.call(name)
    trains = inspect.isclass(function) and function in (nu.EnsembleClassifier, nu.NuEnsembleClassifier)
    given = right if parameter is None else {**right, parameter: value}
    if trains:
        # What cannot be used is refused by fit, as scikit-learn has it.
        small = {"n_members": 1, "max_iter": 1, "random_state": 0, "model_options": {"hidden": (4,)}, "cv": 2}
        if function is nu.NuEnsembleClassifier:
            small["beta"] = 0.01
        given = {**small, **({} if parameter is None else {parameter: value})}

    def call() -> Any:
        found = function(**given)
        return found.fit(world.x, world.y, world.u).predict_proba(world.x) if trains else found

    if parameter is None:
        tally.measure(name, lambda: _documented(call))
    shown = " ".join(repr(value).split())
    also = (TypeError, ValueError) if name.split(".")[0] in ESTIMATORS else ()
    tally.attempt(name, call, longer=10 if name in SLOW else 1, example=f"{parameter}={shown[:60]}", also=also)


def _documented(call: Any) -> Any:
    """What is right may be refused where an optional package is absent."""
    try:
        return call()
    except (nu.InputError, ImportError):
        return None
