"""What a fitted ensemble classifier does: predictions, scores, files. How it is fitted stands in `any_method.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import _safe_indexing
from sklearn.utils.validation import check_is_fitted

from nu_ensembles.checks import check_array, checked
from nu_ensembles.ensemble import Ensemble, score
from nu_ensembles.errors import InputError
from nu_ensembles.estimator import kept
from nu_ensembles.estimator.arguments import rows_like_fitted, which_labelled
from nu_ensembles.estimator.notebook import outcome_in_html
from nu_ensembles.estimator.scored import ScoredClassifier
from nu_ensembles.models import Model
from nu_ensembles.problem import check_labels, only_labelled
from nu_ensembles.tables import rows_of


class FittedEnsemble(ScoredClassifier):
    """The face of a classifier after `fit`, which leaves it an ensemble and the classes.

    Attributes:
      ensemble_: the trained `nu.Ensemble`.
      classes_: `[C]`, in the order of the probabilities.
    """

    ensemble_: Ensemble
    classes_: np.ndarray
    unlabeled_label: Any
    # Set while the rows are checked, where scikit-learn wants them.
    n_features_in_: int
    feature_names_in_: np.ndarray

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

    @checked
    def score(self, X: Any, y: Any, sample_weight: float | ArrayLike | None = None) -> float:
        """Accuracy on the labelled rows; those without a label, or marked by `unlabeled_label`, are left out.

        Args:
          X: `[n, …]`.
          y: `[n]`, the true labels.
          sample_weight: `[n]`, or None for ones.
        """
        X, y, labelled = self._labelled(X, y)
        if labelled is not None and sample_weight is not None:
            sample_weight = np.asarray(sample_weight)[labelled]
        return super().score(X, y, sample_weight)

    @checked
    def evaluate(self, X: Any, y: Any, *, intervals: float | None = None) -> dict[str, float]:
        """All metrics on labelled rows that the classifier has not seen: those of `nu.metrics.evaluate`, by name.

        Rows without a label are left out, as in `score`.

        Args:
          X: `[n, …]`.
          y: `[n]`, the true labels, of the type that those given to `fit` had.
          intervals: a level such as 0.95 adds `NAME_low` and `NAME_high` for every metric.
        """
        check_is_fitted(self)
        X, y, _ = self._labelled(X, y)
        if not len(y):
            raise InputError("y holds no label at all; label some rows.")
        _, codes = check_labels(y, self.classes_, len(y))
        return score(self.ensemble_, self._rows(X), codes, intervals)

    @checked
    def report(self, X: Any, y: Any = None, *, path: str | Path = "report.html", name: str = "These rows") -> Path:
        """Writes a page on these rows: how right, how sure, which rows to look at, how it was trained.

        Without labels it shows confidence, disagreement, and rows unlike the training rows.

        Args:
          X: `[n, …]`, best rows that the classifier has not seen.
          y: `[n]`, the true labels; NaN, None and blanks stand for none.
          path: of the page, one HTML file that needs nothing else; an older one is replaced.
          name: what to call the rows.

        Returns:
          the path.
        """
        from nu_ensembles.estimator.reporting import given_of
        from nu_ensembles.report.own import own_page
        from nu_ensembles.report.page import write_page

        write_page(path, own_page(given_of(self, self._rows(X), y, name)))
        return Path(path)

    @checked
    def save(self, folder: str | Path) -> None:
        """Writes the classifier into a new folder, from which `load` restores it and `nu.Ensemble.load` the ensemble.

        Args:
          folder: its path; refused if it exists.
        """
        check_is_fitted(self)
        kept.with_notes(self).save(folder)  # pyright: ignore[reportArgumentType]

    @classmethod
    @checked
    def load(cls, folder: str | Path, model: Model | None = None) -> Self:
        """Reads a saved classifier, or one that `nu-ensembles fit` wrote, after checking every byte of it.

        What was searched is in `cv_results_`; `search_`, with the losses of every row, is None.

        Args:
          folder: what `save` wrote.
          model: the network, needed when it is not one of the built-in ones.
        """
        return kept.loaded(cls, folder, model)  # pyright: ignore[reportArgumentType, reportReturnType]

    def _html_repr(self) -> str:
        """What a notebook shows: scikit-learn's picture of the arguments, below what came out of the fit."""
        picture = super()._html_repr()  # pyright: ignore[reportAttributeAccessIssue]
        return outcome_in_html(self) + picture if hasattr(self, "ensemble_") else picture

    def _labelled(self, X: Any, y: Any) -> tuple[Any, Any, np.ndarray | None]:
        """The rows that have a label, their labels, and their numbers; None where all have."""
        X, y = rows_of(X, "X"), np.atleast_1d(check_array(y, "y"))
        labelled = np.flatnonzero(which_labelled(y, self.unlabeled_label)) if y.ndim == 1 else np.arange(len(y))
        if len(labelled) == len(y):
            return X, y, None
        return _safe_indexing(X, labelled), only_labelled(y, labelled), labelled

    def _rows(self, X: Any) -> Any:
        check_is_fitted(self)
        return rows_like_fitted(self, X, self.ensemble_)
