"""What a search found, in one sentence and as a table."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from nu_ensembles.metrics.temperature import fit_temperature, scale_temperature
from nu_ensembles.tuning.scores import OutOfFold, paired_difference
from nu_ensembles.tuning.search import SearchResult

# Added to the summed NLL as PRIOR * (log T)²: with few labels the temperature would follow the noise.
PRIOR = 30.0
# Half the width of a 95 % interval in standard errors.
NORMAL_95 = 1.96


@dataclasses.dataclass(frozen=True)
class Gain:
    """A relative change of NLL against an early-stopped standard ensemble, out of fold: -0.06 is 6 % lower.

    half_width: of its 95 % interval.
    """

    relative: float
    half_width: float

    def in_words(self) -> str:
        percent, around = 100 * abs(self.relative), 100 * self.half_width
        return f"{percent:.1f} % ± {around:.1f} {'lower' if self.relative < 0 else 'higher'}"


def temperature_of(found: OutOfFold, candidate: int) -> float:
    """The temperature that suits a candidate's out-of-fold probabilities at its best step."""
    return fit_temperature(found.probabilities[candidate], found.codes, PRIOR)


def temperature_gain(result: SearchResult) -> Gain:
    """What temperature scaling alone does for the early-stopped standard ensemble.

    Each fold is scaled by a temperature fitted on the other folds, so that no label scores its own temperature. A
    validation set is parted in two for this.
    """
    found = result.out_of_fold
    probabilities, labels = found.probabilities[0], found.codes
    before, after = np.empty(len(labels)), np.empty(len(labels))
    fold_of = np.arange(len(labels)) % 2 if _validated(result) else found.fold_of
    for fold in np.unique(fold_of):
        here = fold_of == fold
        others = ~here if (~here).any() else here  # a single row has no others
        temperature = fit_temperature(probabilities[others], labels[others], PRIOR)
        own = np.arange(int(here.sum())), labels[here]
        before[here] = -np.log(np.maximum(probabilities[here][own], 1e-38))
        after[here] = -np.log(np.maximum(scale_temperature(probabilities[here], temperature)[own], 1e-38))
    return _gain(after, before, found.weight)


def _validated(result: SearchResult) -> bool:
    """Whether a validation set took the place of the folds."""
    return len(np.unique(result.out_of_fold.fold_of)) == 1


def nu_gain(result: SearchResult) -> Gain:
    """What the choice gains over the early-stopped standard ensemble."""
    found = result.out_of_fold
    standard = found.losses[0, np.nanargmin(result.nll[0])]
    return _gain(found.losses[result.chosen], standard, found.weight)


def verdict(result: SearchResult) -> str:
    """The one sentence that a user should read."""
    scaled = temperature_gain(result).in_words()
    where, whose = ("on the validation rows", "validation") if _validated(result) else ("out of fold", "out-of-fold")
    if result.beta == 0:
        sentence = (
            f"β = 0, {result.n_steps} steps: no β did clearly better {where} than an early-stopped standard "
            f"ensemble, so this is one; temperature scaling alone gives {scaled} NLL."
        )
    else:
        sentence = (
            f"β = {result.beta:g}, {result.n_steps} steps: {whose} NLL {nu_gain(result).in_words()} than an "
            f"early-stopped standard ensemble (95 % interval); temperature scaling alone gives {scaled}."
        )
    if result.chosen[1] == len(result.steps) - 1:
        sentence += " The loss was still falling at the last step: raise max_iter."
    return sentence


def as_table(result: SearchResult) -> dict[str, Any]:
    """One row per (beta, steps) as a dict of columns, ready for a data frame.

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


def _gain(losses: np.ndarray, reference: np.ndarray, weight: np.ndarray) -> Gain:
    difference, error = paired_difference(losses, reference, weight)
    # A reference that is certain and right everywhere has no loss to be compared with.
    level = max(float(np.sum(reference * weight) / weight.sum()), np.finfo(np.float64).tiny)
    return Gain(difference / level, NORMAL_95 * error / level)
