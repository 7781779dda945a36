"""A space: the parameters of a search, and the values that each may take.

Written in YAML, or as the same mapping in Python, a parameter is one line:

    learning_rate: {log: [1e-4, 1e-2]}       a number, tried evenly in its logarithm
    dropout: {float: [0, 0.5]}
    width: {int: [16, 128], step: 16}
    method: {choice: [standard, nu]}

Which names there are, and what they mean for a training, stands in `naming.py`.
"""

from __future__ import annotations

import dataclasses
import json
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from nu_ensembles import storage
from nu_ensembles.checks import check_whole, shown
from nu_ensembles.errors import InputError, unknown_name

Kind = Literal["float", "log", "int", "choice"]
KINDS: tuple[str, ...] = get_args(Kind)
# Values of a range that a grid tries, where its parameter does not say.
USUAL_POINTS = 4


@dataclasses.dataclass(frozen=True)
class Parameter:
    """What one parameter may be.

    Attributes:
      name: see `naming.py`.
      kind: "float" and "log" are numbers from `low` to `high`, "int" whole numbers, "choice" one of `choices`.
      low: where a range begins.
      high: where it ends; a choice has no range.
      choices: names, numbers, flags or tuples of numbers.
      step: between two whole numbers.
      points: how many values a grid tries of a range.
    """

    name: str
    kind: Kind
    low: float = 0.0
    high: float = 0.0
    choices: tuple[Any, ...] = ()
    step: int = 1
    points: int = USUAL_POINTS

    def at(self, share: float) -> Any:
        """The value so far on the way through all values.

        Args:
          share: of the way, 0 <= share < 1.
        """
        if self.kind == "choice":
            return self.choices[int(share * len(self.choices))]
        if self.kind == "int":
            return int(self.low) + self.step * int(share * self._n_whole)
        low, high = self._bounds
        value = low + share * (high - low)
        return float(math.exp(value)) if self.kind == "log" else float(value)

    def grid(self) -> list[Any]:
        """The values that a grid tries."""
        if self.kind == "choice":
            return list(self.choices)
        if self.kind == "int":
            places = np.linspace(0, self._n_whole - 1, min(self.points, self._n_whole)).round().astype(int)
            return [int(self.low) + self.step * int(place) for place in dict.fromkeys(places.tolist())]
        values = np.linspace(*self._bounds, self.points)
        return [float(value) for value in (np.exp(values) if self.kind == "log" else values)]

    @property
    def _bounds(self) -> tuple[float, float]:
        return (math.log(self.low), math.log(self.high)) if self.kind == "log" else (self.low, self.high)

    @property
    def _n_whole(self) -> int:
        return (int(self.high) - int(self.low)) // self.step + 1

    def to_dict(self) -> dict[str, Any]:
        """The parameter as a space's file has it."""
        if self.kind == "choice":
            return {"choice": [list(each) if isinstance(each, tuple) else each for each in self.choices]}
        if self.kind == "int":
            return {"int": [int(self.low), int(self.high)], "step": self.step, "points": self.points}
        return {self.kind: [self.low, self.high], "points": self.points}


@dataclasses.dataclass(frozen=True)
class Space:
    """The parameters of a search.

    Attributes:
      parameters: in the order of their names.
    """

    parameters: tuple[Parameter, ...]

    @classmethod
    def of(cls, given: Any) -> Space:
        """A space in any form that a user gives it in.

        Args:
          given: a mapping, the path of a YAML file that holds one, or a space.

        Raises:
          InputError: it is none, or a parameter cannot be what it says.
        """
        if isinstance(given, Space):
            return given
        where = "The space"
        if isinstance(given, str | os.PathLike):
            where = f"The space {os.fspath(given)}"
            given = storage.read_yaml(given, "The space")
        if not isinstance(given, Mapping) or not given:
            raise InputError(
                f"{where} must name its parameters, a line each, as in `learning_rate: {{log: [1e-4, 1e-2]}}`."
            )
        return cls(tuple(sorted((_parameter(str(n), v, where) for n, v in given.items()), key=lambda each: each.name)))

    @property
    def names(self) -> list[str]:
        """Those of the parameters."""
        return [each.name for each in self.parameters]

    def grid_size(self) -> int:
        """How many points a grid has."""
        return math.prod(len(each.grid()) for each in self.parameters)

    def to_dict(self) -> dict[str, Any]:
        """The space as a file has it."""
        return {each.name: each.to_dict() for each in self.parameters}


def _parameter(name: str, given: Any, where: str) -> Parameter:
    what, own = f"{where}: {name!r}", name.replace("-", "_")
    if isinstance(given, list | tuple):
        given = {"choice": given}
    if not isinstance(given, Mapping):
        raise InputError(f"{what} must be a kind and its values, as in {{log: [1e-4, 1e-2]}}, not {shown(given)}.")
    given = {str(each): value for each, value in given.items()}
    kinds = [each for each in given if each in KINDS]
    for each in given:
        if each not in (*KINDS, "step", "points"):
            raise unknown_name(f"kind of the parameter {name!r}", each, (*KINDS, "step", "points"))
    if len(kinds) != 1:
        raise InputError(f"{what} must have one kind of {', '.join(KINDS)}, not {shown(given)}.")
    kind: Any = kinds[0]
    values = given[kind]
    if isinstance(values, str) or not isinstance(values, Sequence) or not values:
        raise InputError(f"{what} must list its values, as in {{{kind}: [1, 2]}}, not {shown(values)}.")
    if kind == "choice":
        _refuse_beside(given, ("step", "points"), what, kind)
        return Parameter(own, "choice", choices=_choices(values, what))
    low, high = _range(values, kind, what)
    points = check_whole(given.get("points", USUAL_POINTS), f"{what}: points", least=2)
    if kind != "int":
        _refuse_beside(given, ("step",), what, kind)
        return Parameter(own, kind, low, high, points=points)
    return Parameter(own, "int", low, high, step=check_whole(given.get("step", 1), f"{what}: step"), points=points)


def _refuse_beside(given: Mapping[str, Any], names: Sequence[str], what: str, kind: str) -> None:
    for name in names:
        if name in given:
            raise InputError(f"{what} is a {kind}, which has no {name}; leave it out.")


def _choices(values: Sequence[Any], what: str) -> tuple[Any, ...]:
    """Names, numbers, flags, nothing, or lists of whole numbers, each once."""
    found = tuple(tuple(each) if isinstance(each, list | tuple) else _number_of(each) for each in values)
    for each in found:
        plain = each if isinstance(each, tuple) else (each,)
        if not all(isinstance(part, str | int | float | bool | None) for part in plain):
            raise InputError(f"{what} has a choice that is no name, number or list of numbers: {shown(each)}.")
    if len({json.dumps(each) for each in found}) < len(found):
        raise InputError(f"{what} names a choice twice; give each once.")
    return found


def _range(values: Sequence[Any], kind: str, what: str) -> tuple[float, float]:
    numbers = [_number_of(each) for each in values]
    if len(numbers) != 2 or not all(isinstance(n, int | float) and not isinstance(n, bool) for n in numbers):
        raise InputError(f"{what} goes from one number to another, as in {{{kind}: [1, 2]}}, not {shown(values)}.")
    low, high = numbers
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InputError(f"{what} must go from a smaller number to a larger one, not from {low:g} to {high:g}.")
    if kind == "log" and low <= 0:
        raise InputError(f"{what} is tried in its logarithm, so it must begin above 0, not at {low:g}.")
    if kind == "int" and (low != int(low) or high != int(high)):
        raise InputError(f"{what} must go from a whole number to another, not from {low:g} to {high:g}.")
    return float(low), float(high)


def _number_of(value: Any) -> Any:
    """YAML takes 1e-4, which has no point, for text."""
    if not isinstance(value, str):
        return value
    try:
        return float(value)
    except ValueError:
        return value
