"""A random forest with a temperature, as scikit-learn knows classifiers; what it does stands in `companion/`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from nu_ensembles.checks import check_positive, check_whole, checked, refuse_foreign
from nu_ensembles.companion import Forest, grow
from nu_ensembles.companion.trees import Trees
from nu_ensembles.errors import InputError
from nu_ensembles.estimator.scored import ScoredClassifier
from nu_ensembles.problem import check_labels, check_targets, usable_weights


class TemperedForest(ScoredClassifier, BaseEstimator):
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
      oob_probabilities_: `[n, C]`, what the trees that had not seen a row say of it, with the temperature; nan where
        every tree had. The temperature was fitted on these rows, which is one number: they are all but out of fold.
      forest_: the trees as arrays, and the temperature.
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

    @checked
    def fit(self, X: Any, y: Any, sample_weight: float | ArrayLike | None = None) -> Self:
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
        refuse_foreign(X, "X")
        refuse_foreign(y, "y")
        X, y = validate_data(self, X, y, dtype=np.float32)  # what trees compare
        check_targets(y)
        if sample_weight is not None:
            weight = _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)
            sample_weight = usable_weights(weight)
            kept = sample_weight > 0
            X, y, sample_weight = X[kept], y[kept], sample_weight[kept]
        self.classes_, labels = check_labels(y, None, len(X))
        self.forest_, self.oob_probabilities_ = grow(
            X,
            labels,
            len(self.classes_),
            n_trees=n_trees,
            seed=check_random_state(self.random_state).randint(np.iinfo(np.int32).max),
            weight=sample_weight,
            temperature_prior=prior,
            max_features=self.max_features,
            min_samples_leaf=self.min_samples_leaf,
            class_weight=self.class_weight,
            n_jobs=self.n_jobs,
        )
        return self

    @property
    def temperature_(self) -> float:
        """T; below 1 sharpens."""
        check_is_fitted(self)
        return self.forest_.temperature

    @property
    def trees_(self) -> Trees:
        """The trees as arrays."""
        check_is_fitted(self)
        return self.forest_.trees

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Class probabilities `[n, C]`.

        Args:
          X: `[n, features]`.
        """
        check_is_fitted(self)
        refuse_foreign(X, "X")
        X = validate_data(self, X, reset=False, dtype=np.float32)
        return self.forest_.probabilities(np.asarray(X))

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
    @checked
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
        fitted = Forest.from_arrays(state, temperature, n_features)
        if classes.shape != (fitted.n_classes,):
            raise InputError("The state of the forest does not fit together: give what state() returned.")
        forest = cls(n_estimators=len(fitted.trees.roots))
        forest.classes_, forest.n_features_in_, forest.forest_ = classes, n_features, fitted
        return forest
