"""What the names in a space mean: from a trial's parameters to the training that it is.

A name is an argument of the training (`learning_rate`), an option of a network (`dropout`), or one of a method (`beta`,
or `nu.beta` where several methods have it and only one is meant). A trial whose network or method has no such option
leaves it alone, so that networks and methods may be searched together with what only some of them have.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from nu_ensembles import methods, models
from nu_ensembles.engine.settings import Settings
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.methods import METHODS, AnyMethod
from nu_ensembles.models.registry import BUILDERS
from nu_ensembles.searches.space import Space

OF_SETTINGS = ("learning_rate", "weight_decay", "batch_size", "unlabeled_batch_size", "augment", "augment_unlabeled")
# `hidden` of a perceptron in two numbers: so many units in each of so many layers.
WIDTH, LAYERS = "width", "layers"
USUAL_WIDTH, USUAL_LAYERS = 64, 2
LENGTHS = ("steps", "n_steps", "epochs", "max_iter")


@dataclasses.dataclass(frozen=True)
class Fixed:
    """What a training is where the space says nothing.

    Attributes:
      model: a built-in network's name, with its options.
      method: a method's name, with its options.
      settings: of the engine.
    """

    model: str = "mlp"
    model_options: tuple[tuple[str, Any], ...] = ()
    method: str = "nu"
    method_options: tuple[tuple[str, Any], ...] = ()
    settings: Settings = dataclasses.field(default_factory=Settings)


@dataclasses.dataclass(frozen=True)
class Chosen:
    """What one trial trains: a network's name and options, a method, settings."""

    model: str
    model_options: Mapping[str, Any]
    method: AnyMethod
    settings: Settings


def check_space(space: Space, fixed: Fixed) -> None:
    """Refuses names that mean nothing here, with the nearest that does, and networks and methods that there are not."""
    by_name = {each.name: each for each in space.parameters}
    nets = _all_of(by_name, "model", fixed.model)
    ways = _all_of(by_name, "method", fixed.method)
    for name in nets:
        if not isinstance(name, str):
            raise InputError(f"The space: a model is a name, such as 'mlp', not {name!r}.")
        models.build(name, 2)
    for name in ways:
        if name not in METHODS:
            raise unknown_name("method in the space:", name, METHODS)
        if not METHODS[name].shape == "independent" or not getattr(METHODS[name], "is_one_training", True):
            raise InputError(
                f"The method {name!r} does not train its members independently in one training, so its trials cannot "
                "train side by side; search over methods that do, such as standard, nu or label_smoothing."
            )
    known = {"model", "method", *OF_SETTINGS}
    known |= {option for name in nets for option in _options_of_network(name)}
    known |= {option for name in ways for option in _options_of_method(name)}
    dotted = {name: {f"{name}.{option}" for option in _options_of_method(name)} for name in ways}
    for name in by_name:
        if name in LENGTHS:
            raise InputError(
                f"The space: {name!r} needs no search, because every trial is scored along its way and may be stopped "
                "anywhere; leave it out, and set the longest training (max_iter)."
            )
        method, dot, _ = name.partition(".")
        if dot and method in METHODS and method not in ways:
            raise InputError(
                f"The space: {name!r} is of a method that no trial has; add {method!r} to the choices of method, or "
                "leave it out."
            )
        of_method = dotted.get(method, set()) if dot else set()
        if name not in known | of_method:
            raise unknown_name("parameter in the space:", name, of_method or known)
    if "hidden" in by_name and by_name.keys() & {WIDTH, LAYERS}:
        raise InputError(f"The space has both 'hidden' and {WIDTH!r} or {LAYERS!r}, which say the same; keep one.")


def _all_of(by_name: Mapping[str, Any], name: str, fixed: str) -> list[Any]:
    """All that a parameter may be, or what is fixed."""
    if name not in by_name:
        return [fixed]
    if by_name[name].kind != "choice":
        raise InputError(f"The space: {name!r} is a choice of names, as in {{choice: [{fixed}]}}.")
    return list(by_name[name].choices)


def _options_of_network(name: str) -> list[str]:
    key = name.lower().replace("-", "_")
    builder = BUILDERS.get(key, BUILDERS["wide_resnet"])
    options = [each for each in inspect.signature(builder).parameters if each != "n_classes"]
    return [*options, WIDTH, LAYERS] if "hidden" in options else options


def _options_of_method(name: str) -> list[str]:
    return [field.name for field in dataclasses.fields(METHODS[name])]


def chosen(parameters: Mapping[str, Any], fixed: Fixed) -> Chosen:
    """What a trial with these parameters trains.

    Raises:
      InputError: a value that an option cannot have.
    """
    model, method = parameters.get("model", fixed.model), parameters.get("method", fixed.method)
    given = dict(parameters)
    settings = {name: given[name] for name in OF_SETTINGS if name in given}
    settings = {name: None if value == "none" else value for name, value in settings.items()}
    options = dict(fixed.model_options) if model == fixed.model else {}
    known = _options_of_network(model)
    options |= {name: given[name] for name in known if name in given and name not in (WIDTH, LAYERS)}
    if {WIDTH, LAYERS} & given.keys() and WIDTH in known:
        width = given.get(WIDTH, (options.get("hidden") or (USUAL_WIDTH,))[0])
        layers = given.get(LAYERS, len(options.get("hidden") or (0,) * USUAL_LAYERS))
        options["hidden"] = (width,) * layers
    return Chosen(model, options, _method_of(method, given, fixed), dataclasses.replace(fixed.settings, **settings))


def _method_of(name: str, given: Mapping[str, Any], fixed: Fixed) -> AnyMethod:
    options = dict(fixed.method_options) if name == fixed.method else {}
    for option in _options_of_method(name):
        for spelt in (option, f"{name}.{option}"):
            if spelt in given:
                options[option] = given[spelt]
    return methods.build(name, **options)


def used(parameters: Mapping[str, Any], fixed: Fixed) -> dict[str, Any]:
    """Those of a trial's parameters that its network and method have."""
    model, method = parameters.get("model", fixed.model), parameters.get("method", fixed.method)
    known = {"model", "method", *OF_SETTINGS, *_options_of_network(model)}
    for option in _options_of_method(method):
        known |= {option, f"{method}.{option}"}
    return {name: value for name, value in parameters.items() if name in known}
