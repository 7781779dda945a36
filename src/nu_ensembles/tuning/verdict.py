"""What a search found, in one sentence and as a table."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from nu_ensembles.metrics.paired import Gain, paired_difference
from nu_ensembles.metrics.temperature import PRIOR, fit_temperature, scale_temperature
from nu_ensembles.tuning.choice import SearchResult, gain_of_the_rule, parts_of
from nu_ensembles.tuning.scores import OutOfFold
from nu_ensembles.tuning.under_shift import ResultUnderShift

# In paired standard errors.
CLEARLY = 2.0


def temperature_of(found: OutOfFold, candidate: int, rows: np.ndarray | None = None) -> float:
    """The temperature that suits a candidate's out-of-fold probabilities at its best step, on all rows or on some."""
    probabilities, y, weight = found.probabilities[candidate], found.y, found.weight
    if rows is not None:
        probabilities, y, weight = probabilities[rows], y[rows], weight[rows]
    return fit_temperature(probabilities, y, PRIOR, weight / weight.mean())


def temperature_gain(result: SearchResult) -> Gain:
    """What temperature scaling alone does for the early-stopped standard ensemble.

    Each fold is scaled by a temperature fitted on the other folds, so that no label scores its own temperature. A
    validation set is parted in two for this.
    """
    found = result.out_of_fold
    probabilities, labels = found.probabilities[0], found.y
    before, after = np.empty(len(labels)), np.empty(len(labels))
    part_of = parts_of(found)
    for part in np.unique(part_of):
        here = part_of == part
        others = ~here if (~here).any() else here  # a single row has no others
        temperature = temperature_of(found, 0, others)
        own = np.arange(int(here.sum())), labels[here]
        before[here] = -np.log(np.maximum(probabilities[here][own], 1e-38))
        after[here] = -np.log(np.maximum(scale_temperature(probabilities[here], temperature)[own], 1e-38))
    return Gain.of(after, before, found.weight)


def nu_gain(result: SearchResult) -> Gain:
    """What the choice gains over the early-stopped standard ensemble, on rows that had no part in it."""
    return gain_of_the_rule(result.out_of_fold, result.tolerance)


class SearchFindings(NamedTuple):
    """What a fit tells of its search: one sentence, the out-of-fold temperature, and the evidence as a table."""

    verdict: str
    temperature: float
    table: dict[str, Any] | None


def search_findings(result: SearchResult | None, method_name: str, n_steps: int) -> SearchFindings:
    """What there is to tell of the search when so many steps of a method were chosen by this search, or by none."""
    if result is None:
        sentence = f"{method_name}, {n_steps} steps as given: nothing was chosen, so nothing was compared."
        return SearchFindings(sentence, math.nan, None)
    table = as_table(result)
    if isinstance(result, ResultUnderShift):
        sentence = result.verdict()
    else:
        sentence = verdict(result) if len(result.betas) > 1 else ""
    temperature = temperature_of(result.out_of_fold, result.chosen[0])
    sentence = sentence or (
        f"{method_name}, {n_steps} steps: out-of-fold NLL {result.nll[result.chosen]:.3f}; the out-of-fold temperature "
        f"is {temperature:.2f}."
    )
    return SearchFindings(sentence, temperature, table)


def verdict(result: SearchResult) -> str:
    """The one sentence that a user should read. It claims a gain only where the gain's interval excludes zero."""
    still_falling, scaled = _still_falling(result), temperature_gain(result)
    validated = len(np.unique(result.out_of_fold.fold_of)) == 1
    where, whose = ("on the validation rows", "validation") if validated else ("out of fold", "out-of-fold")
    if result.beta == 0:
        sentence = (
            f"β = 0, {result.n_steps} steps: no β that was tried has a clear gain {where} over an early-stopped "
            "standard ensemble, so this is one"
        )
    else:
        sentence = (
            f"β = {result.beta:g}, {result.n_steps} steps: {whose} NLL {nu_gain(result).in_words()} than an "
            "early-stopped standard ensemble (95 % interval)"
        )
    change = f"{scaled.in_words()} NLL" if scaled.is_clear else "no clear gain"
    sentence += f"; temperature scaling alone (calibration='temperature') gives {change}."
    if still_falling:
        sentence += " The loss was still falling at the last step: raise max_iter."
    return sentence


def _still_falling(result: SearchResult) -> bool:
    """Whether the choice is the last step and clearly better than the stop before it."""
    found, (candidate, stop) = result.out_of_fold, result.chosen
    if stop == 0 or stop < len(result.steps) - 1:
        return False
    fall, error = paired_difference(found.losses[candidate, stop - 1], found.losses[candidate, stop], found.weight)
    return fall > CLEARLY * error


def as_table(result: SearchResult) -> dict[str, Any]:
    """One row per (beta, steps) as a dict of columns, ready for a data frame.

    `n_steps` is of the final training; the networks of a fold, which has fewer rows, had as many passes over theirs.
    `difference` is the out-of-fold NLL above the best row, `standard_error` that of this paired difference; rows
    that were not measured, because the candidate had been dropped, hold nan.
    """
    found = result.out_of_fold
    columns: dict[str, list[Any]] = {
        name: [] for name in ("beta", "n_steps", "nll", "difference", "standard_error", "chosen")
    }
    at_best = found.losses[result.best]
    for candidate, beta in enumerate(result.betas):
        for stop, step in enumerate(result.steps):
            difference, error = paired_difference(found.losses[candidate, stop], at_best, found.weight)
            row = (float(beta), int(step), float(result.nll[candidate, stop]), difference, error)
            for name, value in zip(columns, (*row, (candidate, stop) == result.chosen), strict=True):
                columns[name].append(value)
    return {name: np.asarray(values) for name, values in columns.items()}
