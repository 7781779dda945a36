"""Accuracy as scikit-learn has it, after a look at the labels."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin

from nu_ensembles.checks import check_array, checked
from nu_ensembles.errors import InputError


class ScoredClassifier(ClassifierMixin):
    """A classifier whose `score` refuses labels that cannot be told apart."""

    @checked
    def score(self, X: Any, y: Any, sample_weight: float | ArrayLike | None = None) -> float:
        """Accuracy on labelled rows.

        Args:
          X: `[n, …]`.
          y: `[n]`, the true labels.
          sample_weight: `[n]`, or None for ones.
        """
        y = check_array(y, "y")
        try:
            np.unique(y)
        except TypeError:
            raise InputError(
                "y holds labels that cannot be compared; use one type: whole numbers, text, booleans or dates."
            ) from None
        return super().score(X, y, sample_weight)
