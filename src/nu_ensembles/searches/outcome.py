"""What a search came to: its best trial, the front of two objectives, and what is said of them."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from nu_ensembles import storage
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.errors import InputError
from nu_ensembles.searches.naming import used
from nu_ensembles.searches.objectives import MEANS_OVER_ROWS, Objective
from nu_ensembles.searches.setting import SearchSetting
from nu_ensembles.searches.trial import SearchTrial, better_first
from nu_ensembles.training import run_job

FORMAT = 1


class Point(NamedTuple):
    """A trial, stopped after so many steps, and what its objectives are there."""

    trial: SearchTrial
    n_steps: int
    values: tuple[float, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class SearchOutcome:
    """What a search came to.

    Attributes:
      setting: what its trials share.
      trials: those that have ended, by their numbers.
      n_wanted: how many were asked for.
    """

    setting: SearchSetting
    trials: tuple[SearchTrial, ...]
    n_wanted: int

    @property
    def objectives(self) -> tuple[Objective, ...]:
        """What was scored."""
        return self.setting.objectives

    @property
    def best(self) -> SearchTrial:
        """The trial whose first objective is best, at its best stop.

        Raises:
          InputError: no trial came to anything.
        """
        ranked = better_first(self.trials)
        if not ranked:
            why = f": the first {self.trials[0].reason}" if self.trials else ""
            raise InputError(f"No trial came to anything{why}; narrow the space, or give the search more time.")
        return ranked[0]

    @property
    def best_parameters(self) -> dict[str, Any]:
        """Those of the best trial that its network and method have."""
        return used(self.best.parameters, self.setting.fixed)

    @property
    def n_steps(self) -> int:
        """Steps of the final training, as the best trial has them; on all rows as many passes as on those of a fold."""
        return self.setting.final_steps(self.best.n_steps)

    @property
    def front(self) -> list[Point]:
        """What no other trial, stopped anywhere, beats in every objective; by the first of them."""
        points = [
            Point(trial, int(step), tuple(float(v) for v in values))
            for trial in self.trials
            if not trial.failed
            for step, values in zip(trial.stops, trial.scores[:, :, 0], strict=True)
            if np.isfinite(values).all()
        ]
        signs = np.array([each.sign for each in self.objectives])
        costs = np.array([signs * point.values for point in points]).reshape(len(points), len(signs))
        kept = [
            point
            for point, cost in zip(points, costs, strict=True)
            if not ((costs <= cost).all(axis=1) & (costs < cost).any(axis=1)).any()
        ]
        unlike = {point.values: point for point in reversed(kept)}  # of those that are alike the first
        return sorted(unlike.values(), key=lambda point: float(signs[0] * point.values[0]))

    @property
    def expected(self) -> float:
        """The first objective of what the search picks, on rows that had no part in the picking.

        Each part of the rows (a fold) is scored with the trial and stop that are best on the other parts. The best of
        many trials looks better than it is; this does not. nan for metrics that are no means over rows.
        """
        done = [each for each in self.trials if not each.failed]
        first = self.objectives[0]
        if not done or first.name not in MEANS_OVER_ROWS:
            return float("nan")
        by_part = np.stack([each.scores[:, 0, 1:] for each in done]).reshape(-1, done[0].scores.shape[2] - 1)
        sizes = self._part_sizes(by_part.shape[1])
        by_part = by_part[np.isfinite(by_part).all(axis=1)]
        total = 0.0
        for part in range(len(sizes)):
            others = np.arange(len(sizes)) != part
            on_others = by_part[:, others] @ sizes[others]
            total += float(by_part[np.argmin(first.sign * on_others), part] * sizes[part])
        return total / float(sizes.sum())

    @property
    def verdict(self) -> str:
        """What came out, in a sentence or two."""
        best, first = self.best, self.objectives[0]
        n_failed = sum(each.failed for each in self.trials)
        failed = f" ({n_failed} came to nothing)" if n_failed else ""
        where = "on the validation rows" if self.setting.validation is not None else "out of fold"
        said = (
            f"The best of {len(self.trials)} trials{failed} is trial {best.number}, with {first.name} "
            f"{best.value:.4f} {where} after {best.n_steps} steps: {in_words(self.best_parameters)}."
        )
        if np.isfinite(self.expected):
            said += f" Picked on other rows than it is scored on, {first.name} is {self.expected:.4f}."
        return said

    def fit(self, n_members: int = 10, verbose: int = 0, **notes: Any) -> Ensemble:
        """Trains an ensemble as the best trial says, on all labelled rows.

        Args:
          n_members: how many networks (K).
          verbose: 0 is silent.
          **notes: further entries of the ensemble's `training`.
        """
        job = self.setting.job(self.best.parameters)
        job = job.replace(members=tuple(range(n_members)), n_steps=self.n_steps, validation=None)
        return job.ensemble(run_job(job, verbose=verbose), verdict=self.verdict, **notes)

    def to_dict(self) -> dict[str, Any]:
        """All of it in plain values, the same whoever ran the trials, and whenever."""
        setting = self.setting
        done = any(not each.failed for each in self.trials)
        front = self.front if len(self.objectives) > 1 else []
        return {
            "format": FORMAT,
            "space": setting.space.to_dict(),
            "objectives": [each.name for each in self.objectives],
            "seed": setting.seed,
            "stops": setting.stops.tolist(),
            "n_members": setting.n_members,
            "n_wanted": self.n_wanted,
            "fingerprint": setting.fingerprint(),
            "best": self.best.number if done else None,
            "n_steps": self.n_steps if done else None,
            "expected": self.expected if np.isfinite(self.expected) else None,
            "verdict": self.verdict if done else None,
            "front": [{"trial": p.trial.number, "n_steps": p.n_steps, "values": list(p.values)} for p in front],
            "trials": [each.to_dict() for each in self.trials],
        }

    def write(self, path: str | Path) -> None:
        """Writes the results file, with a checksum of its own.

        Args:
          path: of the file.
        """
        storage.write_stamped_json(path, self.to_dict())

    def _part_sizes(self, n_parts: int) -> np.ndarray:
        """Rows of each part."""
        from nu_ensembles.tuning.scores import OutOfFold

        setting = self.setting
        held_out = setting.held_out(setting.job(self.best.parameters))
        empty = OutOfFold.empty(np.zeros(1), setting.stops[:1], held_out, 1)
        return np.bincount(setting.parts(empty), minlength=n_parts).astype(float)


def in_words(parameters: dict[str, Any]) -> str:
    """ "learning rate 0.002, method nu"."""
    said = [
        f"{name.replace('_', ' ')} {value:.3g}" if isinstance(value, float) else f"{name.replace('_', ' ')} {value}"
        for name, value in parameters.items()
    ]
    return ", ".join(said)
