"""Ways to train an ensemble: one file each, all on the protocol in `protocol.py`."""

from __future__ import annotations

import inspect
from typing import Any

from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.methods.nu import LabelScheme, Nu
from nu_ensembles.methods.protocol import BaseMethod, Batch, Forward, Method, hyper_parameters, method
from nu_ensembles.methods.standard import Standard

__all__ = [
    "METHODS",
    "BaseMethod",
    "Batch",
    "Forward",
    "LabelScheme",
    "Method",
    "Nu",
    "Standard",
    "build",
    "hyper_parameters",
    "method",
]

METHODS: dict[str, type] = {cls.name: cls for cls in (Standard, Nu)}


def build(name: str, **options: Any) -> Method:
    """A method by its name: `build("nu", beta=0.01)`."""
    if name not in METHODS:
        raise unknown_name("method", name, METHODS)
    known = inspect.signature(METHODS[name]).parameters
    for option in options:
        if option not in known:
            error = unknown_name(f"option of method {name!r}", option, known)
            raise (error if known else InputError(f"The method {name!r} takes no options; leave out {option!r}."))
    return METHODS[name](**options)
