"""Trials of a search on an executor: a heat is a task."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import Any

from nu_ensembles.searches.heat import Measured, Report, run_heat
from nu_ensembles.searches.setting import SearchSetting
from nu_ensembles.searches.working import Here, RunHeats
from nu_ensembles_studies.run.executors import Executor, executor_on

Heat = tuple[tuple[int, Mapping[str, Any]], ...]


class HeatsOn:
    """Runs heats on an executor; see `RunHeats`."""

    def __init__(self, executor: Executor) -> None:
        self.executor = executor

    @property
    def n_at_once(self) -> int:
        return self.executor.n_at_once()

    def __call__(
        self, setting: SearchSetting, heats: Sequence[Mapping[int, Mapping[str, Any]]], report: Report
    ) -> Generator[tuple[int, Measured]]:
        tasks: list[Heat] = [tuple(heat.items()) for heat in heats]
        for heat, found in self.executor.results(heat_elsewhere, tasks, setting):
            if isinstance(found, Exception):
                raise found
            lanes = setting.n_members * max(1, len(setting.folds))
            report(int(setting.stops[-1]) * lanes * len(heat), float("nan"))
            yield from found.items()


def heat_elsewhere(setting: SearchSetting, heat: Heat) -> dict[int, Measured]:
    """What the trials of a heat come to; runs on whichever machine."""
    return dict(run_heat(setting, dict(heat)))


@contextlib.contextmanager
def heats_on(on: str, **place: Any) -> Iterator[RunHeats]:
    """What runs a search's trials where a command line asks for; see `executor_on`."""
    if on == "here" and place.get("address") is None and not place.get("gpus_per_task"):
        yield Here()
        return
    with executor_on(on, **place) as executor:
        yield HeatsOn(executor)
