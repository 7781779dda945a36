"""What a fitted ensemble classifier does: predictions, scores, files. How it is fitted stands in `any_method.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from nu_ensembles.ensemble import Ensemble
from nu_ensembles.estimator.arguments import rows_like_fitted, which_labelled
from nu_ensembles.problem import only_labelled
from nu_ensembles.tables import rows_of


class FittedEnsemble(ClassifierMixin):
    """The face of a classifier after `fit`, which leaves it an ensemble and the classes.

    Attributes:
      ensemble_: the trained `nu.Ensemble`.
      classes_: `[C]`, in the order of the probabilities.
    """

    ensemble_: Ensemble
    classes_: np.ndarray
    unlabeled_label: Any

    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities `[n, C]`: the mean over members, pooled and calibrated where the arguments ask for it.

        Args:
          X: `[n, …]`, rows with the columns of those given to `fit`; so in all that follows.
        """
        rows = self._rows(X)
        return self.ensemble_.predict_proba(rows)

    def predict_members(self, X: Any) -> np.ndarray:
        """Each member's class probabilities `[K, n, C]`, neither pooled with a companion nor calibrated.

        Args:
          X: `[n, …]`.
        """
        rows = self._rows(X)
        return self.ensemble_.predict_members(rows)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class of each row, `[n]`.

        Args:
          X: `[n, …]`.
        """
        probabilities = self.predict_proba(X)
        return self.classes_[probabilities.argmax(axis=1)]

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy on the labelled rows; those without a label, or marked by `unlabeled_label`, are left out.

        Args:
          X: `[n, …]`.
          y: `[n]`, the true labels.
          sample_weight: `[n]`, or None for ones.
        """
        X, y = rows_of(X, "X"), np.asarray(y)
        labelled = np.flatnonzero(which_labelled(y, self.unlabeled_label)) if y.ndim == 1 else np.arange(len(y))
        if len(labelled) < len(y):
            X, y = _safe_indexing(X, labelled), only_labelled(y, labelled)
            sample_weight = None if sample_weight is None else np.asarray(sample_weight)[labelled]
        return super().score(X, y, sample_weight)

    def save(self, folder: str | Path) -> None:
        """Writes the trained ensemble into a new folder; `nu.Ensemble.load` reads it.

        Args:
          folder: its path; refused if it exists.
        """
        check_is_fitted(self)
        self.ensemble_.save(folder)

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return rows_like_fitted(self, X, self.ensemble_)
