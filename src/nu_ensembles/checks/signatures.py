"""The one edge of public functions: arguments become what the annotations say, or are refused in one sentence."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ParamSpec, TypeVar

from nu_ensembles.checks.kinds import Kind, Misfit, in_words, kinds_of, taken
from nu_ensembles.errors import InputError, shown

P = ParamSpec("P")
R = TypeVar("R")


def checked(function: Callable[P, R]) -> Callable[P, R]:
    """Takes arguments for what the function's annotations say, before it sees them, and refuses all others.

    So a function behind this edge may trust its annotations: a list of numbers is a tuple of numbers, whether it came
    as a list, a range, a set or a column; rows of different lengths, text for a number and the like never arrive.
    Annotations that are not known to `kinds` take everything: such arguments the function checks itself.
    """
    signature = inspect.signature(function)
    wanted = _wanted(signature, function)

    @functools.wraps(function)
    def with_checks(*args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(*args, **kwargs)
        for name, value in given.arguments.items():
            if name in wanted:
                given.arguments[name] = _taken(name, value, wanted[name])
        return function(*given.args, **given.kwargs)

    return with_checks


def check_options(values: Mapping[str, Any], owner: type) -> None:
    """Refuses options that are not what the annotations of a class say: an estimator keeps its own as they came."""
    wanted = _wanted(inspect.signature(owner), owner.__init__)
    for name, value in values.items():
        if name in wanted:
            _taken(name, value, wanted[name])


def _wanted(signature: inspect.Signature, function: Callable[..., Any]) -> dict[str, list[Kind]]:
    """The kinds of each parameter that has some."""
    names = getattr(function, "__globals__", {})
    each = {how.name: how for how in signature.parameters.values()}
    gathered = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    found = {name: kinds_of(how.annotation, names) for name, how in each.items() if how.kind not in gathered}
    return {name: kinds for name, kinds in found.items() if kinds}


def _taken(name: str, value: Any, kinds: Sequence[Kind]) -> Any:
    try:
        return taken(value, kinds)
    except Misfit:
        raise InputError(f"{name} must be {in_words(kinds)}, not {shown(value)}.") from None
