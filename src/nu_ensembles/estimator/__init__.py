"""The scikit-learn face: `fit(X, y, X_unlabeled=U)`, `predict_proba(X)`.

`NuEnsembleClassifier` chooses beta and the length of training by itself; `EnsembleClassifier` runs any method; `Blend`
pools any classifiers, for instance one of these with a `TemperedForest`.
Thin: the data go to `training.py`, the choice to `tuning/`.
"""

from nu_ensembles.estimator.any_method import EnsembleClassifier
from nu_ensembles.estimator.blend import Blend
from nu_ensembles.estimator.nu import NuEnsembleClassifier
from nu_ensembles.estimator.tempered_forest import TemperedForest

__all__ = ["Blend", "EnsembleClassifier", "NuEnsembleClassifier", "TemperedForest"]
