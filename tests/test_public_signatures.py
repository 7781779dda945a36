"""Public functions stand behind one edge: `checked` knows what each parameter may be, or says who else looks at it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nu_ensembles as nu
from nu_ensembles.checks.kinds import kinds_of

ROOMS = ("calibration", "corruptions", "datasets", "metrics", "models", "theory")
# Annotations that say nothing to the edge, and where such arguments are looked at.
ELSEWHERE = {
    "Any": "rows, labels, seeds, folds and dtypes: problem/, tuning/folds.py, models/inspect.py",
    "AnyMethod | str | None": "methods/registry.py",
    "ColumnTypes | None": "tables/rows.py",
    "int | Array": "problem/seeds.py",
    "nn.Module": "models/linen_adapter.py",
    "optax.GradientTransformation | None": "engine/settings.py",
    "RunHeats | None": "searches/tune.py",
    "str | Augmentation | None": "engine/settings.py",
    "str | RayCluster": "engine/plans.py",
}
# For those who write a network, called with what JAX traces or as a decorator; and the base class of estimators.
NOT_BEHIND = {"join_variables", "logits_and_features", "split_variables", "torch_rule"}
CLASSES = (nu.Ensemble, nu.EnsembleClassifier, nu.metrics.Abstention, nu.metrics.ConformalSets)
CLASSES += (nu.metrics.TemperatureScaling, nu.calibration.Calibrator, nu.calibration.FittedCalibrator)
INHERITED = {"get_params", "set_params", "get_metadata_routing", "set_fit_request", "set_score_request"}


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public functions, and methods of what users hold."""
    homes = [nu, *(getattr(nu, room) for room in ROOMS)]
    for home in homes:
        for name in home.__all__:
            found = getattr(home, name)
            if inspect.isfunction(found) and name not in NOT_BEHIND:
                yield f"{home.__name__}.{name}", found
    for each in CLASSES:
        for name, found in inspect.getmembers(each, callable):
            if not name.startswith("_") and name not in INHERITED:
                yield f"{each.__name__}.{name}", getattr(found, "__func__", found)


PARAMETERS = [
    (f"{name}({parameter})", function, how)
    for name, function in functions()
    for parameter, how in inspect.signature(function).parameters.items()
    if parameter not in ("self", "cls") and how.kind is not how.VAR_KEYWORD
]


def test_there_are_many() -> None:
    assert len(PARAMETERS) > 200


@pytest.mark.parametrize(("name", "function", "how"), PARAMETERS, ids=[name for name, *_ in PARAMETERS])
def test_each_parameter_goes_through_the_edge_or_says_who_looks_at_it(
    name: str, function: Callable[..., Any], how: inspect.Parameter
) -> None:
    known = kinds_of(how.annotation, inspect.unwrap(function).__globals__)
    assert known or how.annotation in ELSEWHERE
    assert not known or hasattr(function, "__wrapped__"), f"put @checked on {name}"
