"""`nu-ensembles doctor`: what this machine has, and how members would train on it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from nu_ensembles.checks import check_whole
from nu_ensembles.cli.options import TRAINING, Json
from nu_ensembles.cli.output import show, table

if TYPE_CHECKING:
    from nu_ensembles.diagnostics.machine import Outlook


def doctor(*, members: Annotated[int, Parameter(group=TRAINING)] = 10, json: Json = False) -> None:
    """Show devices, memory, versions, the cache of compiled programs, and how the built-in networks would train here.

    Nothing is trained and nothing is written.

    ```
    nu-ensembles doctor
    nu-ensembles doctor --members 50 --json
    ```

    Args:
      members: Networks in the ensemble that is meant.
      json: Print one JSON object.
    """

    check_whole(members, "members")
    from nu_ensembles.diagnostics import machine
    from nu_ensembles.training.run_folder import environment

    found = environment()
    facts = {
        "command": "doctor",
        **found,
        "devices": machine.devices(),
        "compilation_cache": machine.compilation_cache(),
        "variables": machine.variables(),
        "advice": machine.advice(found["backend"]),
    }
    outlooks = [machine.outlook(network, members) for network in machine.NETWORKS]
    facts |= {"members": members, "plans": [_as_dict(outlook) for outlook in outlooks]}
    show(facts, _in_words(facts, outlooks), json)


def _as_dict(outlook: Outlook) -> dict[str, Any]:
    fields = {field.name: getattr(outlook, field.name) for field in dataclasses.fields(outlook)}
    return fields | {"plan": dataclasses.asdict(outlook.plan)}


def _in_words(facts: dict[str, Any], outlooks: list[Outlook]) -> str:
    cache = facts["compilation_cache"]
    kept = "off"
    if cache["folder"] is not None:
        kept = (
            f"{cache['state']}, in {cache['folder']} ({cache['chosen_by']}): {cache['programs']} programs, "
            f"{_size(cache['bytes'])}, at most {_size(cache['most_bytes'])}"
        )
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    rows = [
        ["nu-ensembles", f"{facts['nu_ensembles']} on Python {facts['python']}, {facts['system']}"],
        ["packages", versions],
        *(
            ["device", f"{each['kind']} ({each['platform']}), {_size(each['free_bytes'])} for training"]
            for each in facts["devices"]
        ),
        ["compiled programs", f"{kept}; {cache['switch']}"],
        *(["set", f"{name}={value}"] for name, value in facts["variables"].items()),
        *(["note", text] for text in facts["advice"]),
    ]
    plans = [
        [
            outlook.network,
            "x".join(map(str, outlook.row_shape)),
            outlook.dtype,
            outlook.plan.name,
            "Python" if outlook.plan.on_host else "compiled",
            _size(outlook.member_bytes),
            outlook.why,
        ]
        for outlook in outlooks
    ]
    header = [f"{facts['members']} members of", "rows", "products in", "plan", "loop", "a member needs", "why"]
    return "\n".join([table(["", ""], rows).lstrip("\n"), "", table(header, plans)])


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if n_bytes < 1000:
            return f"{n_bytes:.0f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} GB"
