"""Who made a number: version, device, jax, and the version of the results.

Cells of different makers are never averaged unless the user asks for it: bfloat16 on a GPU and float32 on a CPU, or
two versions of a loss, are different experiments.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from nu_ensembles.errors import InputError
from nu_ensembles.results_version import RESULTS_CODE


def maker() -> dict[str, str]:
    """What made the cells of this process."""
    from nu_ensembles.training import environment

    found = environment()
    return {
        "nu_ensembles": found["nu_ensembles"],
        "jax": found["versions"]["jax"],
        "backend": found["backend"],
        "device": found["device"],
        "code": RESULTS_CODE,
    }


def refuse_others(where: object, others: Iterable[Mapping[str, str]], maker: Mapping[str, str]) -> None:
    """Raises if any of the others is not this maker; `where` they are."""
    for other in others:
        if dict(other) != dict(maker):
            differing = [name for name in maker if other.get(name) != maker[name]]
            raise InputError(
                f"{where} holds cells made by {in_words(other)}, and this is {in_words(maker)} (another "
                f"{', '.join(differing)}): choose another --out, or add --mixed to keep both, each cell with its maker "
                "beside it."
            )


def in_words(entry: Mapping[str, Any]) -> str:
    """ "nu-ensembles 0.1.0 (code results-1), jax 0.11.2, NVIDIA H200"."""
    return f"nu-ensembles {entry['nu_ensembles']} (code {entry['code']}), jax {entry['jax']}, {entry['device']}"
