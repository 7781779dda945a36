"""`--config fit.yaml`: options from a YAML file under their own names; the command line overrides them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from nu_ensembles.errors import InputError, unknown_name

if TYPE_CHECKING:
    from cyclopts import App
    from cyclopts.argument import ArgumentCollection


def from_config_file(app: App, commands: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Gives the options of the file named by `--config` to arguments that the command line left open."""
    from cyclopts.config import Dict

    chosen = arguments.get("--config")
    if chosen is None or not chosen.tokens:
        return
    path = Path(chosen.tokens[0].value)
    known = {name.removeprefix("--").replace("-", "_") for each in arguments for name in each.names} - {"config"}
    source = Dict(read_config(path, known), source=str(path), use_commands_as_keys=False)
    source(app, commands, arguments)


def read_config(path: Path, known: set[str]) -> dict[str, Any]:
    """The file's options; max-iter and max_iter mean the same, and an option that is null keeps its default."""
    from nu_ensembles.storage import read_yaml

    found = {} if (content := read_yaml(path, "The configuration")) is None else content
    if not isinstance(found, dict):
        raise InputError(f"The configuration {path} must be a list of options such as `max_iter: 100`, one a line.")
    options = {str(name).replace("-", "_"): value for name, value in found.items() if value is not None}
    for name in options:
        if name not in known:
            raise unknown_name(f"option in {path}:", name, known)
    return options
