"""The scikit-learn face: `fit(X, y, X_unlabeled=U)`, `predict_proba(X)`.

`NuEnsembleClassifier` chooses beta and the length of training by itself; `EnsembleClassifier` runs any method.
Thin: the data go to `training.py`, the choice to `tuning/`.
"""

from nu_ensembles.estimator.any_method import EnsembleClassifier
from nu_ensembles.estimator.nu import NuEnsembleClassifier

__all__ = ["EnsembleClassifier", "NuEnsembleClassifier"]
