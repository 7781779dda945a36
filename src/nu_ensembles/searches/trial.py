"""One trial: its parameters, what it came to at every stop, and where it was best."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nu_ensembles.searches.heat import Measured
from nu_ensembles.searches.objectives import Objective
from nu_ensembles.searches.space import Space


@dataclasses.dataclass(frozen=True, eq=False)
class SearchTrial:
    """One trial of a search.

    Attributes:
      number: counted from 0.
      parameters: by name.
      scores: float64 `[S, objectives, 1 + P]`, see `heat.Measured`; nan where it had ended.
      reason: why it came to nothing, or "".
      objectives: what was scored.
      stops: int `[S]`, the steps at which it was.
    """

    number: int
    parameters: Mapping[str, Any]
    scores: np.ndarray
    reason: str
    objectives: tuple[Objective, ...]
    stops: np.ndarray

    @classmethod
    def of(
        cls,
        number: int,
        parameters: Mapping[str, Any],
        measured: Measured,
        objectives: tuple[Objective, ...],
        stops: np.ndarray,
    ) -> SearchTrial:
        """A trial that has ended.

        Args:
          number: counted from 0.
          parameters: by name.
          measured: what it came to.
          objectives: what was scored.
          stops: the steps at which it was.
        """
        scores = measured.scores
        reason = measured.reason or (
            "" if np.isfinite(scores[:, :, 0]).all(axis=1).any() else "its scores are no numbers"
        )
        return cls(number, dict(parameters), scores, reason, objectives, stops)

    @property
    def failed(self) -> bool:
        """Whether it came to nothing."""
        return bool(self.reason)

    @property
    def curve(self) -> dict[str, np.ndarray]:
        """float64 `[S]` by objective."""
        return {each.name: self.scores[:, place, 0] for place, each in enumerate(self.objectives)}

    @property
    def best_stop(self) -> int:
        """Where the first objective is best; the earliest, where several are as good."""
        whole = np.isfinite(self.scores[:, :, 0]).all(axis=1)
        return int(np.nanargmin(np.where(whole, self.objectives[0].sign * self.scores[:, 0, 0], np.nan)))

    @property
    def n_steps(self) -> int:
        """Steps at the best stop."""
        return int(self.stops[self.best_stop])

    @property
    def values(self) -> tuple[float, ...] | None:
        """Each objective at the best stop; None for a trial that came to nothing."""
        return None if self.failed else tuple(float(each) for each in self.scores[self.best_stop, :, 0])

    @property
    def value(self) -> float:
        """The first objective at its best; nan for a trial that came to nothing."""
        return float("nan") if self.values is None else self.values[0]

    def to_dict(self) -> dict[str, Any]:
        """The trial in plain values, without when it ran or where."""
        return {
            "number": self.number,
            "parameters": {n: list(v) if isinstance(v, tuple) else v for n, v in self.parameters.items()},
            "values": self.values,
            "n_steps": None if self.failed else self.n_steps,
            "reason": self.reason,
            "curve": {name: [None if np.isnan(v) else float(v) for v in of] for name, of in self.curve.items()},
        }


def better_first(trials: Sequence[SearchTrial]) -> list[SearchTrial]:
    """Those that came to something, the best by the first objective first; the lower number, where two are alike."""
    return sorted(
        (each for each in trials if not each.failed),
        key=lambda each: (each.objectives[0].sign * each.value, each.number),
    )


def in_space(space: Space, stored: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters as the space has them, from how a database held them."""
    from nu_ensembles.searches.draws import plain

    found = {}
    for each in space.parameters:
        value = stored[each.name]
        if each.kind == "choice":
            value = next(choice for choice in each.choices if plain(choice) == value)
        found[each.name] = value
    return found
