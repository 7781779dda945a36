"""The network of a model that is no built-in one, from a Python file of the user's own: `FILE.py:NAME`."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from nu_ensembles.errors import InputError
from nu_ensembles.models import Model


def own_network(place: str | None) -> Model | None:
    """What the file calls so: a `Model`, or a function that makes one. The file is run for it.

    Args:
      place: "FILE.py:NAME"; None where the network is built in.
    """
    if place is None:
        return None
    file, _, name = place.rpartition(":")
    path = Path(file)
    if path.suffix != ".py" or not name.isidentifier():
        raise InputError(f"--network takes FILE.py:NAME, such as --network train.py:model, not {place!r}.")
    if not path.is_file():
        raise InputError(f"There is no file {path}; --network takes the Python file that makes the network.")
    found = getattr(_run(path), name, None)
    if callable(found) and not isinstance(found, Model):
        found = found()
    if not isinstance(found, Model):
        raise InputError(
            f"{path} has no network {name!r}; let it be a Model, such as the result of nu.models.from_torch, or a "
            "function that returns one."
        )
    return found


def _run(path: Path) -> Any:
    """The file as a module; what it does when it is run as a program stays behind its `if __name__ == "__main__":`."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    # What lies beside the file can be imported, as when Python runs it.
    sys.path.insert(0, str(path.resolve().parent))
    sys.modules.setdefault(path.stem, module)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InputError(f"{path} fails when it is run for its network ({type(error).__name__}: {error}).") from error
    return module
