"""A random forest whose probabilities are softened or sharpened by what its trees say of rows that they have not seen.

  q = (votes + 1) / (trees + C),  p ∝ q^(1/T)

A tree was not trained on about a third of the rows (out of bag). With votes of those trees only, T minimises the summed
NLL + prior·(log T)². One vote for every class (Laplace) keeps q off zero. Forests of few labels are mostly too
cautious: the mean of trees that vote 0 or 1 lies between.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from nu_ensembles.companion.trees import Trees
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.temperature import fit_temperature, scale_temperature

TEMPERATURE_PRIOR = 3.0


@dataclasses.dataclass(frozen=True, eq=False)
class Forest:
    """Trees and the temperature of their votes.

    Attributes:
      n_features: of the rows that it takes.
    """

    trees: Trees
    temperature: float
    n_features: int

    @property
    def n_classes(self) -> int:
        return self.trees.values.shape[1]

    def probabilities(self, x: NDArray[Any]) -> NDArray[np.float64]:
        """Class probabilities `[N, C]` of rows `[N, F]`."""
        n_trees = np.full(len(x), len(self.trees.roots))
        return scale_temperature(
            with_one_vote_each(n_trees[:, None] * self.trees.probabilities(x), n_trees), self.temperature
        )

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], temperature: float, n_features: int) -> Forest:
        """From the arrays of its trees, after a look at whether they fit together."""
        if not 0 < temperature < np.inf:
            raise InputError(f"The temperature of the forest is {temperature}: give the state that was saved.")
        return cls(Trees.from_state(arrays, n_features), temperature, n_features)


class GrownForest(NamedTuple):
    """A forest, and what its trees say of rows that they had not seen.

    out_of_bag: `[n, C]`, with the temperature; nan where every tree had seen the row. The temperature was fitted on
      these rows, which is one number: they are all but out of fold.
    """

    forest: Forest
    out_of_bag: NDArray[np.float64]


def grow(
    x: NDArray[Any],
    y: NDArray[Any],
    n_classes: int,
    *,
    n_trees: int,
    seed: int,
    weight: NDArray[np.float64] | None = None,
    temperature_prior: float = TEMPERATURE_PRIOR,
    **options: Any,
) -> GrownForest:
    """Grows the trees, then fits the temperature.

    Args:
      x: `[n, F]`; y: class numbers `[n]`, of which some may be absent.
      weight: `[n]`, above zero.
      options: further ones of `sklearn.ensemble.RandomForestClassifier`.
    """
    # Its import takes half a second, and who loads a saved forest needs none of it.
    from sklearn.ensemble import RandomForestClassifier

    x = np.asarray(x, np.float32)  # what trees compare
    grown = RandomForestClassifier(n_trees, random_state=seed, **options).fit(x, y, weight)
    votes, n_votes = _out_of_bag(grown, x, n_classes)
    seen = n_votes > 0
    smoothed = with_one_vote_each(votes, n_votes)
    temperature = 1.0
    if seen.any():
        of_seen = None if weight is None else weight[seen] / weight[seen].mean()
        temperature = fit_temperature(smoothed[seen], y[seen].astype(np.int64), temperature_prior, of_seen)
    out_of_bag = np.where(seen[:, None], scale_temperature(smoothed, temperature), np.nan)
    trees = Trees.of(grown.estimators_)
    values = np.zeros((len(trees.values), n_classes))
    values[:, grown.classes_.astype(int)] = trees.values
    return GrownForest(Forest(dataclasses.replace(trees, values=values), temperature, x.shape[1]), out_of_bag)


def _out_of_bag(forest: Any, x: NDArray[Any], n_classes: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sum of the probabilities of the trees that had not seen a row `[n, C]`, and how many these are `[n]`."""
    votes, n_votes = np.zeros((len(x), n_classes)), np.zeros(len(x), np.int64)
    columns = forest.classes_.astype(int)
    for tree, seen in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        others = np.setdiff1d(np.arange(len(x)), seen)
        if len(others):
            votes[np.ix_(others, columns)] += tree.predict_proba(x[others], check_input=False)
            n_votes[others] += 1
    return votes, n_votes


def with_one_vote_each(votes: NDArray[np.float64], n_votes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Shares of the votes `[n, C]` after every class got one more."""
    return (votes + 1.0) / (n_votes[:, None] + votes.shape[1])
