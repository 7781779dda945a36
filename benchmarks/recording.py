"""How benchmarks keep what they measured: rows of one JSON file, written after every row, with machine and versions."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import jax

from nu_ensembles.results_version import RESULTS_CODE
from nu_ensembles.training import environment


def device_slug() -> str:
    """ "cpu", or the last word of an accelerator's name: "NVIDIA H200" is "h200"."""
    device = jax.devices()[0]
    return "cpu" if device.platform == "cpu" else re.sub(r"\W+", "", device.device_kind.split()[-1].lower())


class Recording:
    """The rows of a benchmark on this machine.

    Rows that an earlier run measured with the same versions on the same device stay, unless they are measured again.

    Args:
      name: of the file, results/NAME-DEVICE.json, unless `out` is given.
      key: fields that tell rows apart.
      quick: a trial; its file has another name, so that it replaces nothing.
    """

    def __init__(
        self,
        name: str,
        command: str,
        key: tuple[str, ...],
        out: Path | None = None,
        quick: bool = False,
        **about: Any,
    ) -> None:
        self.path = out or Path("results") / f"{name}-{device_slug()}{'-quick' if quick else ''}.json"
        self.key = key
        here = environment() | {"cores": len(os.sched_getaffinity(0))}
        self.about = {"command": command, "environment": here} | about
        self.rows: list[dict[str, Any]] = []
        if self.path.exists():
            stored = json.loads(self.path.read_text())
            if all(stored.get(field) == _plain(value) for field, value in self.about.items()):
                self.rows = stored["rows"]

    def add(self, row: dict[str, Any]) -> None:
        row = _plain(row | {"code": RESULTS_CODE})
        mine = [row.get(field) for field in self.key]
        self.rows = [other for other in self.rows if [other.get(field) for field in self.key] != mine] + [row]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(json.dumps(self.about | {"rows": self.rows}, indent=1) + "\n")


def _plain(value: Any) -> Any:
    """As it comes back from JSON."""
    return json.loads(json.dumps(value))
