"""Several classifiers as one: a pool of their probabilities whose weights are learnt out of fold.

The pools and the prior of the weights stand in `calibration/pooling.py`. Classifiers that err differently cover for
each other, a geometric pool most where one of them is sure: a single "hardly" makes a class improbable.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, clone
from sklearn.utils import Tags, _safe_indexing, check_random_state, get_tags
from sklearn.utils.validation import (
    _check_sample_weight,
    _check_y,
    _num_samples,
    check_consistent_length,
    check_is_fitted,
    has_fit_parameter,
    validate_data,
)

from nu_ensembles.calibration.pooling import WEIGHT_PRIOR, check_pooling, check_weights, pool, pooling_weights
from nu_ensembles.checks import check_positive, checked, refuse_foreign, shown
from nu_ensembles.errors import InputError
from nu_ensembles.estimator.blend_folds import folds_for_weights
from nu_ensembles.estimator.scored import ScoredClassifier
from nu_ensembles.problem import check_labels, check_targets, usable_weights
from nu_ensembles.tuning import Fold


class Blend(ScoredClassifier, BaseEstimator):
    """A pool of classifiers with `predict_proba`, of this package or of any other.

    Args:
      classifiers: what is blended; they are cloned, not changed. Their parameters are `0__C`, `1__max_depth`, …
      pooling: "geometric" (p ∝ Π p_k^w_k) or "arithmetic" (p = Σ w_k p_k).
      weights: "out_of_fold", or a number for each classifier.
      weight_prior: strength of the pull of learnt weights to equality: one classifier alone costs `weight_prior`·log K
        nats of the summed out-of-fold NLL.
      cv: folds that weights are learnt on: a number, a scikit-learn splitter or an iterable of splits. With a number
        every class is spread evenly, and a class with a single row trains in every fold.
      random_state: seed of the folds.

    Attributes:
      classifiers_: fitted on all rows.
      classes_: `[C]`, in the order of the probabilities.
      weights_: `[K]`, they sum to one.
      oof_probabilities_: `[K, n, C]`, each classifier's predictions of rows that it was not trained on, nan for rows
        that no fold held out; None where weights were given.
      fold_of_: `[n]`, the first fold that held the row out, -1 where none did; None where weights were given.
    """

    oof_probabilities_: Any
    fold_of_: Any

    def __init__(
        self,
        classifiers: Sequence[Any],
        pooling: str = "geometric",
        weights: str | Sequence[float] = "out_of_fold",
        *,
        weight_prior: float = WEIGHT_PRIOR,
        cv: Any = 5,
        random_state: Any = None,
    ) -> None:
        self.classifiers = classifiers
        self.pooling = pooling
        self.weights = weights
        self.weight_prior = weight_prior
        self.cv = cv
        self.random_state = random_state

    @checked
    def fit(self, X: Any, y: Any, X_unlabeled: Any = None, sample_weight: float | ArrayLike | None = None) -> Self:
        """Learns the weights out of fold, then fits every classifier on all rows.

        Args:
          X: `[n, …]`, whatever the classifiers take.
          y: `[n]`, labels of any type.
          X_unlabeled: `[m, …]`, handed to those classifiers whose `fit` takes it; wrap it as `nu.Unlabeled(U)` inside a
            `GridSearchCV`.
          sample_weight: `[n]`, handed to those whose `fit` takes it, and heeded where weights are learnt.
        """
        check_pooling(self.pooling)
        prior = check_positive(self.weight_prior, "weight_prior", zero_allowed=True)
        classifiers = check_classifiers(self.classifiers)
        given = None if _is_text(self.weights, "out_of_fold") else check_weights(self.weights, len(classifiers))
        if X_unlabeled is not None and not any(has_fit_parameter(each, "X_unlabeled") for each in classifiers):
            raise InputError("None of the classifiers has a fit that takes X_unlabeled; leave it out or add one.")
        if y is None:
            raise InputError("This classifier requires y to be passed, but the target y is None.")
        refuse_foreign(y, "y")
        X, y = self._rows(X, reset=True), _check_y(y, estimator=self)
        check_consistent_length(X, y)
        check_targets(y)
        weight = np.ones(len(y))
        if sample_weight is not None:
            weight = usable_weights(_check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True))
        counts = np.flatnonzero(weight)
        self.classes_, codes = check_labels(y[counts], None, len(counts))

        def fitted(classifier: Any, rows: NDArray[np.int64]) -> Any:
            wanted = {"X_unlabeled": X_unlabeled, "sample_weight": None if sample_weight is None else weight[rows]}
            taken = {k: v for k, v in wanted.items() if v is not None and has_fit_parameter(classifier, k)}
            copy: Any = clone(classifier)
            return copy.fit(_safe_indexing(X, rows), y[rows], **taken)

        if given is None:
            seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
            folds = folds_for_weights(self.cv, X, y, counts, codes, seed)
            probabilities, self.fold_of_ = self._out_of_fold(classifiers, folds, X, fitted)
            rows = np.flatnonzero(self.fold_of_ >= 0)
            given = check_weights(None, len(classifiers))
            if len(rows):  # else no class has two rows
                labels = np.searchsorted(self.classes_, y[rows])
                given = pooling_weights(list(probabilities[:, rows]), labels, self.pooling, weight[rows], prior)
            self.oof_probabilities_ = probabilities
        else:
            self.oof_probabilities_, self.fold_of_ = None, None
        self.weights_ = given
        self.classifiers_ = [fitted(classifier, counts) for classifier in classifiers]
        return self

    def _out_of_fold(
        self, classifiers: list[Any], folds: list[Fold], X: Any, fitted: Callable[[Any, NDArray[np.int64]], Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Probabilities `[K, n, C]`, the mean over the folds that held a row out, and the first of these folds."""
        n_rows = _num_samples(X)
        total, times = np.zeros((len(classifiers), n_rows, len(self.classes_))), np.zeros(n_rows)
        fold_of = np.full(n_rows, -1)
        for number, fold in reversed(list(enumerate(folds))):
            held_out = _safe_indexing(X, fold.held_out)
            for k, classifier in enumerate(classifiers):
                total[k, fold.held_out] += self._aligned(fitted(classifier, fold.train), held_out)
            times[fold.held_out] += 1
            fold_of[fold.held_out] = number
        return np.where(times[:, None] > 0, total / np.maximum(times, 1)[:, None], np.nan), fold_of

    def _aligned(self, classifier: Any, X: Any) -> NDArray[np.float64]:
        """A classifier's probabilities `[n, C]` with a column for every class, 0 for those it was never shown."""
        predicted = np.asarray(classifier.predict_proba(X))
        known = np.asarray(classifier.classes_)
        if predicted.shape != (_num_samples(X), len(known)):
            raise InputError(
                f"{type(classifier).__name__} gives probabilities of shape {predicted.shape} where "
                f"{(_num_samples(X), len(known))} is expected; blend classifiers with one probability for each class."
            )
        aligned = np.zeros((len(predicted), len(self.classes_)))
        aligned[:, np.searchsorted(self.classes_, known)] = predicted
        return aligned

    def _rows(self, X: Any, reset: bool) -> Any:
        """X in a form that can be sliced; data frames stay what they are, for classifiers that take text."""
        if hasattr(X, "columns"):
            return validate_data(self, X, reset=reset, skip_check_array=True)
        refuse_foreign(X, "X")
        sparse = self.__sklearn_tags__().input_tags.sparse
        return validate_data(
            self, X, reset=reset, accept_sparse=sparse, dtype=None, allow_nd=True, ensure_all_finite=False
        )

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """The pooled class probabilities `[n, C]`.

        Args:
          X: `[n, …]`.
        """
        check_is_fitted(self)
        X = self._rows(X, reset=False)
        return pool([self._aligned(each, X) for each in self.classifiers_], self.weights_, self.pooling)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each row.

        Args:
          X: `[n, …]`.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Its arguments by name.

        Args:
          deep: also the classifiers and theirs: `0`, `0__C`, `1`, …
        """
        found = super().get_params(deep=False)
        if deep and isinstance(self.classifiers, list | tuple):
            for number, classifier in enumerate(self.classifiers):
                found[str(number)] = classifier
                if hasattr(classifier, "get_params") and not isinstance(classifier, type):
                    found |= {f"{number}__{name}": value for name, value in classifier.get_params().items()}
        return found

    def set_params(self, **params: Any) -> Self:
        """Sets arguments.

        Args:
          params: by the names that `get_params` gives them.
        """
        if "classifiers" in params:
            self.classifiers = params.pop("classifiers")
        replaced = {name: params.pop(name) for name in list(params) if name.isdigit() and name in self.get_params()}
        if replaced:
            self.classifiers = [replaced.get(str(number), each) for number, each in enumerate(self.classifiers)]
        return super().set_params(**params)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        if isinstance(self.classifiers, list | tuple) and all(hasattr(c, "__sklearn_tags__") for c in self.classifiers):
            parts = [get_tags(classifier).input_tags for classifier in self.classifiers]
            tags.input_tags.sparse = all(part.sparse for part in parts)
            tags.input_tags.allow_nan = all(part.allow_nan for part in parts)
        return tags


def check_classifiers(classifiers: Any) -> list[Any]:
    """Classifiers that can be cloned, fitted and asked for probabilities."""
    if not isinstance(classifiers, list | tuple) or not classifiers:
        raise InputError(f"Blend takes a list of classifiers, [LogisticRegression(), …], not {shown(classifiers)}.")
    for each in classifiers:
        if isinstance(each, type) or not all(hasattr(each, name) for name in ("fit", "get_params")):
            raise InputError(f"Blend cannot use {shown(each)}; give classifiers, such as LogisticRegression().")
        if not hasattr(each, "predict_proba"):
            raise InputError(
                f"{shown(each)} has no predict_proba; choose a classifier with class probabilities, or wrap it in "
                "sklearn.calibration.CalibratedClassifierCV."
            )
    return list(classifiers)


def _is_text(weights: Any, text: str) -> bool:
    if isinstance(weights, str) and weights != text:
        raise InputError(f"weights must be {text!r} or a number for each classifier, not {shown(weights)}.")
    return isinstance(weights, str)
