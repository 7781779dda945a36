"""nu-ensembles: better calibrated deep ensembles from unlabelled data.

Implements *Something for (almost) nothing: improving deep ensemble calibration using unlabeled data* (Pitas and
Arbel). The public names are listed here and imported when first used, so that `import nu_ensembles` stays light.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from nu_ensembles._version import __version__

if TYPE_CHECKING:
    from nu_ensembles import calibration, corruptions, datasets, methods, metrics, models, report, searches, theory
    from nu_ensembles.ensemble import Ensemble
    from nu_ensembles.errors import DamagedFileError, DataWarning, IdleMembersWarning, InputError, NonFiniteLossError
    from nu_ensembles.estimator import Blend, EnsembleClassifier, NuEnsembleClassifier, TemperedForest
    from nu_ensembles.methods.labels import random_labels
    from nu_ensembles.models import Model
    from nu_ensembles.problem import Unlabeled
    from nu_ensembles.searches import tune
    from nu_ensembles.training import RayCluster, fit

_HOME = {
    "Blend": "estimator",
    "DamagedFileError": "errors",
    "DataWarning": "errors",
    "Ensemble": "ensemble",
    "EnsembleClassifier": "estimator",
    "IdleMembersWarning": "errors",
    "InputError": "errors",
    "Model": "models",
    "NonFiniteLossError": "errors",
    "NuEnsembleClassifier": "estimator",
    "TemperedForest": "estimator",
    "RayCluster": "training",
    "Unlabeled": "problem",
    "fit": "training",
    "random_labels": "methods.labels",
    "tune": "searches",
}
_ROOMS = ("calibration", "corruptions", "datasets", "methods", "metrics", "models", "report", "searches", "theory")

__all__ = [
    "Blend",
    "DamagedFileError",
    "DataWarning",
    "Ensemble",
    "EnsembleClassifier",
    "IdleMembersWarning",
    "InputError",
    "Model",
    "NonFiniteLossError",
    "NuEnsembleClassifier",
    "RayCluster",
    "TemperedForest",
    "Unlabeled",
    "__version__",
    "calibration",
    "corruptions",
    "datasets",
    "fit",
    "methods",
    "metrics",
    "models",
    "random_labels",
    "report",
    "searches",
    "theory",
    "tune",
]


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(importlib.import_module(f"nu_ensembles.{_HOME[name]}"), name)
    elif name in _ROOMS:
        value = importlib.import_module(f"nu_ensembles.{name}")
    else:
        raise AttributeError(f"module 'nu_ensembles' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
