"""The parameters of a trial, drawn from the seed, its number, and the trials that a generation before it came to.

So a search that goes on after a kill, or that several workers share, is the same search: nothing depends on who drew,
or on which trial happened to end first. A generation is drawn when all earlier ones have ended. Random draws and grids
look at nothing that was measured, and are one generation.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import zlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np

from nu_ensembles.checks import check_name, check_whole
from nu_ensembles.errors import InputError, MissingExtraError
from nu_ensembles.searches.objectives import Objective
from nu_ensembles.searches.space import Parameter, Space

SamplerName = Literal["tpe", "random", "grid"]
SAMPLERS: tuple[str, ...] = get_args(SamplerName)
USUAL_GENERATION = 16


@dataclasses.dataclass(frozen=True)
class ParameterDraws:
    """How parameters are drawn.

    Attributes:
      sampler: "tpe" (Optuna's tree-structured Parzen estimator), "random" or "grid".
      generation: how many trials "tpe" draws from the same evidence.
    """

    space: Space
    objectives: tuple[Objective, ...]
    seed: int
    sampler: SamplerName = "tpe"
    generation: int = USUAL_GENERATION

    def __post_init__(self) -> None:
        check_name(self.sampler, "sampler", SAMPLERS)
        check_whole(self.generation, "generation")
        check_whole(self.seed, "seed", least=0)

    def of_generation(
        self,
        number: int,
        n_trials: int,
        found: Mapping[int, tuple[Mapping[str, Any], Sequence[float] | None]],
    ) -> dict[int, dict[str, Any]]:
        """The trials of a generation, by their numbers; empty after the last.

        Args:
          n_trials: of the search.
          found: parameters and values, or None for nothing, of the trials of earlier generations.
        """
        if self.sampler == "tpe":
            return self._by_tpe(number, n_trials, found)
        if number:
            return {}
        if self.sampler == "grid":
            return dict(enumerate(self._grid()[:n_trials]))
        return {each: self._at_random(each) for each in range(n_trials)}

    def _at_random(self, trial: int) -> dict[str, Any]:
        # A parameter's draws depend on its name, so that another beside it changes none of them.
        return {
            each.name: each.at(
                float(np.random.default_rng([self.seed, trial, zlib.crc32(each.name.encode())]).random())
            )
            for each in self.space.parameters
        }

    def _grid(self) -> list[dict[str, Any]]:
        """All points of the grid, in an order that the seed decides: a search that ends early has looked everywhere."""
        size = self.space.grid_size()
        if size > 1_000_000:
            raise InputError(f"The grid has {size} points; name fewer values (points), or draw at random.")
        points = list(itertools.product(*(each.grid() for each in self.space.parameters)))
        order = np.random.default_rng([self.seed]).permutation(len(points))
        return [dict(zip(self.space.names, points[place], strict=True)) for place in order]

    def _by_tpe(
        self, generation: int, n_trials: int, found: Mapping[int, tuple[Mapping[str, Any], Sequence[float] | None]]
    ) -> dict[int, dict[str, Any]]:
        optuna = imported_optuna()
        first = generation * self.generation
        numbers = range(first, min(first + self.generation, n_trials))
        if not numbers:
            return {}
        if generation == 0:  # there is no evidence yet
            return {each: self._at_random(each) for each in numbers}
        trial_of, complete = optuna.trial.create_trial, optuna.trial.TrialState
        distributions = {each.name: distribution(each) for each in self.space.parameters}
        ways = ["maximize" if each.is_large else "minimize" for each in self.objectives]
        study = optuna.create_study(directions=ways, sampler=optuna.samplers.RandomSampler(0))
        for number in sorted(found):
            parameters, values = found[number]
            inner = {name: plain(value) for name, value in parameters.items()}
            state = complete.FAIL if values is None else complete.COMPLETE
            study.add_trial(trial_of(state=state, params=inner, distributions=distributions, values=values))
        drawn = {}
        for number in numbers:
            # Another for each trial. Those of the generation that were drawn before count as under way, so that the
            # next one goes elsewhere.
            seed = int(np.random.SeedSequence([self.seed, number]).generate_state(1)[0])
            study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=0)
            asked = study.ask(fixed_distributions=distributions).params
            drawn[number] = {each.name: _value(each, asked[each.name]) for each in self.space.parameters}
        return drawn


def imported_optuna() -> Any:
    """Optuna, without its running commentary.

    Raises:
      MissingExtraError: it is not installed.
    """
    try:
        import optuna  # pyright: ignore[reportMissingImports]
    except ImportError as error:
        raise MissingExtraError("A search of hyper-parameters (tune)", "tune") from error
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    return optuna


def distribution(parameter: Parameter) -> Any:
    """A parameter as Optuna knows it; what its databases cannot hold (lists) stands there as JSON."""
    kinds = imported_optuna().distributions
    if parameter.kind == "choice":
        return kinds.CategoricalDistribution([plain(each) for each in parameter.choices])
    if parameter.kind == "int":
        step, low = parameter.step, int(parameter.low)
        return kinds.IntDistribution(low, low + (int(parameter.high) - low) // step * step, step=step)
    return kinds.FloatDistribution(parameter.low, parameter.high, log=parameter.kind == "log")


def plain(value: Any) -> Any:
    """A value as Optuna's databases hold it."""
    return json.dumps(list(value)) if isinstance(value, tuple) else value


def _value(parameter: Parameter, asked: Any) -> Any:
    if parameter.kind == "choice":
        return next(each for each in parameter.choices if plain(each) == asked)
    return asked
