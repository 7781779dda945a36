"""The figures of a search's page: what matters, how trials went, which values went together, two objectives at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from nu_ensembles.report.figures import ACCENT, INK, PALE, SOFT
from nu_ensembles.report.svg import new_axes
from nu_ensembles.searches.draws import distribution, imported_optuna, plain
from nu_ensembles.searches.objectives import Objective
from nu_ensembles.searches.outcome import SearchOutcome
from nu_ensembles.searches.space import Parameter
from nu_ensembles.searches.trial import SearchTrial, better_first

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Fewer trials say nothing of what matters.
FEWEST = 8


def importances(outcome: SearchOutcome) -> dict[str, float]:
    """The share that each parameter has in what trials differ by (PED-ANOVA, of Optuna), the largest first.

    Empty where too few trials ended, or all are alike.
    """
    optuna = imported_optuna()
    done = better_first(outcome.trials)
    if len(done) < FEWEST or len({each.value for each in done}) == 1:
        return {}
    space = outcome.setting.space.parameters
    study = optuna.create_study(direction="minimize", sampler=optuna.samplers.RandomSampler(0))
    for each in sorted(done, key=lambda trial: trial.number):
        study.add_trial(
            optuna.trial.create_trial(
                value=outcome.objectives[0].sign * each.value,
                params={one.name: plain(each.parameters[one.name]) for one in space},
                distributions={one.name: distribution(one) for one in space},
            )
        )
    found = optuna.importance.get_param_importances(study)
    return dict(sorted(((name, float(share)) for name, share in found.items()), key=lambda each: (-each[1], each[0])))


def importance_bars(shares: Mapping[str, float]) -> Axes:
    """A bar for each parameter."""
    ax = new_axes(5.0, 0.6 + 0.32 * len(shares))
    names = list(shares)[::-1]
    ax.barh(range(len(names)), [shares[name] for name in names], color=ACCENT, height=0.6)
    ax.set_yticks(range(len(names)), names, fontsize=8)
    ax.set_xlabel("share", fontsize=8)
    ax.tick_params(axis="x", labelsize=8)
    return ax


def curves(outcome: SearchOutcome, objective: Objective) -> Axes:
    """Every trial along its way, the best one in colour."""
    ax = new_axes(5.0, 3.4)
    best = outcome.best
    for trial in [each for each in outcome.trials if not each.failed and each is not best] + [best]:
        is_best = trial is best
        ax.plot(
            trial.stops,
            trial.curve[objective.name],
            color=ACCENT if is_best else PALE,
            linewidth=1.8 if is_best else 0.7,
            zorder=3 if is_best else 1,
        )
    ax.scatter([best.n_steps], [best.curve[objective.name][best.best_stop]], color=ACCENT, s=24, zorder=4)
    ax.set_xscale("log")
    values = np.concatenate([each.curve[objective.name] for each in outcome.trials if not each.failed])
    low, high = np.nanquantile(values, [0, 0.9])
    ax.set_ylim(*((low - 0.05 * (high - low), high) if high > low else (None, None)))
    ax.set_xlabel("steps", fontsize=8)
    ax.set_ylabel(objective.name, fontsize=8)
    ax.tick_params(labelsize=8)
    return ax


def parallel_coordinates(outcome: SearchOutcome) -> Axes:
    """A line for each trial through the values of its parameters and the objective; the best tenth in colour."""
    ranked = better_first(outcome.trials)
    space = outcome.setting.space.parameters
    ax = new_axes(max(5.0, 1.1 * (len(space) + 1)), 3.4)
    n_best = max(1, len(ranked) // 10)
    first = outcome.objectives[0]
    worst_to_best = sorted(each.value for each in ranked)
    for place, trial in reversed(list(enumerate(ranked))):
        heights = [_height(each, trial) for each in space]
        heights.append(_rank(worst_to_best, trial.value))
        color = INK if place == 0 else ACCENT if place < n_best else SOFT
        ax.plot(range(len(heights)), heights, color=color, linewidth=1.6 if place == 0 else 0.8, alpha=0.9)
    ax.set_xticks(range(len(space) + 1), [*(each.name for each in space), f"{first.name} (rank)"], fontsize=7)
    ax.set_yticks([])
    for place, each in enumerate(space):
        ax.axvline(place, color=PALE, linewidth=0.6, zorder=0)
        low, high = _ends(each)
        ax.text(place, -0.06, low, ha="center", va="top", fontsize=6)
        ax.text(place, 1.04, high, ha="center", va="bottom", fontsize=6)
    ax.set_ylim(-0.16, 1.14)
    ax.tick_params(axis="x", pad=8)
    return ax


def front(outcome: SearchOutcome) -> Axes:
    """Two objectives: every trial at every stop, and those that nothing beats."""
    ax = new_axes(5.0, 3.6)
    first, second = outcome.objectives
    for trial in outcome.trials:
        if not trial.failed:
            ax.scatter(trial.curve[first.name], trial.curve[second.name], color=PALE, s=5)
    points = np.array([point.values for point in outcome.front])
    ax.plot(points[:, 0], points[:, 1], color=ACCENT, marker="o", markersize=4, linewidth=1)
    around = 0.5 * np.ptp(points, axis=0) + 1e-6 + 0.02 * np.abs(points).max(axis=0)
    ax.set_xlim(points[:, 0].min() - around[0], points[:, 0].max() + around[0])
    ax.set_ylim(points[:, 1].min() - around[1], points[:, 1].max() + around[1])
    ax.set_xlabel(first.name, fontsize=8)
    ax.set_ylabel(second.name, fontsize=8)
    ax.tick_params(labelsize=8)
    return ax


def _height(parameter: Parameter, trial: SearchTrial) -> float:
    """Where a trial's value stands between the parameter's ends, 0 … 1."""
    value = trial.parameters[parameter.name]
    if parameter.kind == "choice":
        return parameter.choices.index(value) / max(1, len(parameter.choices) - 1)
    low, high = parameter.low, parameter.high
    if parameter.kind == "log":
        low, high, value = np.log(low), np.log(high), np.log(value)
    return float((value - low) / (high - low))


def _ends(parameter: Parameter) -> tuple[str, str]:
    if parameter.kind == "choice":
        return str(parameter.choices[0]), str(parameter.choices[-1])
    return f"{parameter.low:g}", f"{parameter.high:g}"


def _rank(ordered: Sequence[float], value: float) -> float:
    return float(np.searchsorted(ordered, value)) / max(1, len(ordered) - 1)
