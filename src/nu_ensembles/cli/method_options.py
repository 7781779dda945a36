"""`--method-options.NAME VALUE`: text from the command line or YAML as the type that the method's field asks for."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args, get_origin

from nu_ensembles.errors import InputError

_WORDS = {int: "a whole number", float: "a number", bool: "true or false", type(None): "none", str: "text"}


def typed_options(method: str, given: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The options of a method under its own names and types.

    Args:
      given: name -> the pieces of text that it was given; several numbers come in one piece (`0.001,0.01`) or many.

    Raises:
      InputError: a text that is none of what the field takes. What no method has is left for `methods.build` to refuse.
    """
    from nu_ensembles.methods import METHODS

    hints = typing.get_type_hints(METHODS[method]) if method in METHODS else {}
    options = {}
    for name, pieces in given.items():
        name, text = name.replace("-", "_"), ",".join(pieces)
        options[name] = _typed(name, text, hints[name]) if name in hints else text
    return options


def _typed(name: str, text: str, hint: Any) -> Any:
    kinds = get_args(hint) if isinstance(hint, types.UnionType) or get_origin(hint) is typing.Union else (hint,)
    for kind in kinds:
        try:
            return _converted(text, kind)
        except ValueError:
            continue
    raise InputError(f"--method-options.{name} takes {' or '.join(map(_in_words, kinds))}, not {text!r}.")


def _converted(text: str, kind: Any) -> Any:
    if get_origin(kind) is tuple:
        return tuple(_converted(part.strip(), get_args(kind)[0]) for part in text.strip("()[]").split(",") if part)
    if get_origin(kind) is Literal:
        # The method itself knows its choices and suggests the nearest.
        return text
    if kind is bool or kind is type(None):
        meaning = {"true": True, "false": False} if kind is bool else {"none": None, "null": None}
        if text.lower() not in meaning:
            raise ValueError
        return meaning[text.lower()]
    return kind(text)


def _in_words(kind: Any) -> str:
    if get_origin(kind) is tuple:
        return "numbers, as in 0.001,0.01"
    return "one of its choices" if get_origin(kind) is Literal else _WORDS.get(kind, str(kind))
