"""An ensemble as plain bytes, for pickle, joblib and skops: the files of its folder, read back with the same checks.

skops makes objects from their state alone and runs nothing of what it reads; functions, which a network of one's own is
made of, it cannot keep.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nu_ensembles.ensemble.files import fill_folder, read_fields
from nu_ensembles.errors import InputError

if TYPE_CHECKING:
    from nu_ensembles.ensemble.trained import Ensemble


def state_of(ensemble: Ensemble) -> dict[str, Any]:
    """The files of a built-in network's ensemble by their names; the fields, where the network is the user's own."""
    if ensemble.model.spec is None:
        return {"fields": dict(vars(ensemble))}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        try:
            fill_folder(ensemble, folder)
        except InputError:  # classes of a type that no file holds; pickle does
            return {"fields": dict(vars(ensemble))}
        return {"files": {file.name: file.read_bytes() for file in folder.iterdir()}}


def fields_of(state: dict[str, Any]) -> dict[str, Any]:
    """The fields again."""
    if "fields" in state:
        return state["fields"]
    with tempfile.TemporaryDirectory() as name:
        for file, content in state["files"].items():
            Path(name, Path(file).name).write_bytes(bytes(content))
        return read_fields(name, None)
