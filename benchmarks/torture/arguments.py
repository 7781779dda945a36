"""Malformed arguments to every public function: one bad value at a time in a call that is right."""

from __future__ import annotations

import inspect
import shutil
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from bad_values import bad_value
from public import World, called_names, parameters_of
from tally import Tally

import nu_ensembles as nu
from nu_ensembles.errors import shown

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
    also = (TypeError, ValueError) if name.split(".")[0] in ESTIMATORS else ()
    tally.attempt(name, call, longer=10 if name in SLOW else 1, example=f"{parameter}={shown(value)}", also=also)


def _documented(call: Any) -> Any:
    """What is right may be refused where an optional package is absent."""
    try:
        return call()
    except (nu.InputError, ImportError):
        return None
