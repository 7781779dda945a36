"""A random forest whose probabilities are softened or sharpened by what its trees say of rows that they have not seen.

  q = (votes + 1) / (trees + C),  p ∝ q^(1/T)

A tree was not trained on about a third of the rows (out of bag). With votes of those trees only, T minimises the summed
NLL + prior·(log T)². One vote for every class (Laplace) keeps q off zero. Forests of few labels are mostly too
cautious: the mean of trees that vote 0 or 1 lies between.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils import check_random_state
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from nu_ensembles.checks import check_positive, check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.estimator.trees import Trees
from nu_ensembles.metrics.temperature import fit_temperature, scale_temperature
from nu_ensembles.problem import check_labels


class TemperedForest(ClassifierMixin, BaseEstimator):
    """A random forest with a temperature from its out-of-bag predictions; it is stored as plain arrays.

    Args:
      n_estimators: how many trees.
      max_features: what share of the columns a split looks at, as in `sklearn.ensemble.RandomForestClassifier`.
      min_samples_leaf: fewest rows of a leaf.
      class_weight: None, "balanced" or a dict.
      temperature_prior: strength of the pull to T = 1, in nats at T = e or 1/e.
      random_state: seed.
      n_jobs: threads that grow trees.

    Attributes:
      classes_: `[C]`, in the order of the probabilities.
      temperature_: T; below 1 sharpens.
      oob_probabilities_: `[n, C]`, what the trees that had not seen a row say of it, with the temperature; nan where
        every tree had. The temperature was fitted on these rows, which is one number: they are all but out of fold.
      trees_: the trees as arrays.
    """

    n_features_in_: int

    def __init__(
        self,
        n_estimators: int = 300,
        *,
        max_features: Any = "sqrt",
        min_samples_leaf: Any = 1,
        class_weight: Any = None,
        temperature_prior: float = 3.0,
        random_state: Any = None,
        n_jobs: int | None = None,
    ) -> None:
        self.n_estimators = n_estimators
        self.max_features = max_features
        self.min_samples_leaf = min_samples_leaf
        self.class_weight = class_weight
        self.temperature_prior = temperature_prior
        self.random_state = random_state
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Grows the trees, then fits the temperature.

        Args:
          X: `[n, features]`.
          y: `[n]`, labels of any type.
          sample_weight: `[n]`.
        """
        n_trees = check_whole(self.n_estimators, "n_estimators")
        prior = check_positive(self.temperature_prior, "temperature_prior", zero_allowed=True)
        if y is None:
            raise InputError("This classifier requires y to be passed, but the target y is None.")
        X, y = validate_data(self, X, y, dtype=np.float32)  # what trees compare
        check_classification_targets(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X, ensure_non_negative=True)
            kept = sample_weight > 0
            X, y, sample_weight = X[kept], y[kept], sample_weight[kept]
        self.classes_, labels = check_labels(y, None, len(X))
        forest = RandomForestClassifier(
            n_trees,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            class_weight=self.class_weight,
            random_state=check_random_state(self.random_state).randint(np.iinfo(np.int32).max),
            n_jobs=self.n_jobs,
        )
        forest.fit(X, labels, sample_weight)
        votes, n_votes = out_of_bag(forest, X)
        seen = n_votes > 0
        smoothed = with_one_vote_each(votes, n_votes)
        weight = None if sample_weight is None else sample_weight[seen] / sample_weight[seen].mean()
        self.temperature_ = 1.0
        if seen.any():
            self.temperature_ = fit_temperature(smoothed[seen], labels[seen].astype(np.int64), prior, weight)
        self.oob_probabilities_ = np.where(seen[:, None], scale_temperature(smoothed, self.temperature_), np.nan)
        self.trees_ = Trees.of(forest.estimators_)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities `[n, C]`.

        Args:
          X: `[n, features]`.
        """
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=np.float32)
        n_trees = np.full(len(X), len(self.trees_.roots))
        votes = n_trees[:, None] * self.trees_.probabilities(X)
        return scale_temperature(with_one_vote_each(votes, n_trees), self.temperature_)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row.

        Args:
          X: `[n, features]`.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def state(self) -> dict[str, Any]:
        """Numbers and arrays that `from_state` makes the fitted forest of again; classes are numbers or text."""
        check_is_fitted(self)
        about = {"classes": self.classes_, "n_features": self.n_features_in_, "temperature": self.temperature_}
        return about | self.trees_.state()

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TemperedForest:
        """A fitted forest that predicts as the one whose state it is; what it was trained with is not kept.

        Args:
          state: what `state` returned.
        """
        try:
            classes = np.asarray(state["classes"])
            n_features, temperature = int(state["n_features"]), float(state["temperature"])
        except (KeyError, TypeError, ValueError):
            raise InputError("This is not the state of a tempered forest: give what its state() returned.") from None
        trees = Trees.from_state(state, n_features)
        if classes.shape != trees.values.shape[1:] or not 0 < temperature < np.inf:
            raise InputError("The state of the forest does not fit together: give what state() returned.")
        forest = cls(n_estimators=len(trees.roots))
        forest.classes_, forest.temperature_ = classes, temperature
        forest.n_features_in_, forest.trees_ = n_features, trees
        return forest


def out_of_bag(forest: RandomForestClassifier, X: NDArray[Any]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Sum of the probabilities of the trees that had not seen a row `[n, C]`, and how many these are `[n]`."""
    votes, n_votes = np.zeros((len(X), len(forest.classes_))), np.zeros(len(X), np.int64)
    for tree, seen in zip(forest.estimators_, forest.estimators_samples_, strict=True):
        others = np.setdiff1d(np.arange(len(X)), seen)
        if len(others):
            votes[others] += tree.predict_proba(X[others])
            n_votes[others] += 1
    return votes, n_votes


def with_one_vote_each(votes: NDArray[np.float64], n_votes: NDArray[np.int64]) -> NDArray[np.float64]:
    """Shares of the votes `[n, C]` after every class got one more."""
    return (votes + 1.0) / (n_votes[:, None] + votes.shape[1])
