"""MLflow's `pyfunc` flavour: a model folder that MLflow loads, logs and serves, without pickle.

    from nu_ensembles.serving import mlflow_model
    mlflow_model.save_model(ensemble, "mlflow-model")
    mlflow.pyfunc.load_model("mlflow-model").predict(frame)

A classifier may also go to MLflow's flavour for scikit-learn, with the names of what skops is to trust:

    mlflow.sklearn.save_model(clf, "mlflow-model", skops_trusted_types=mlflow_model.trusted_types(clf))
"""

# pyright: reportMissingImports=false
from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles._version import __version__
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.errors import InputError, MissingExtraError


def save_model(ensemble: Ensemble, path: str | Path, **options: Any) -> None:
    """Writes an MLflow model of an ensemble of built-in networks.

    Args:
      ensemble: its probabilities are what `predict` gives, a column for each class.
      path: of a new folder.
      options: further ones of `mlflow.pyfunc.save_model`: a signature, an input example, …
    """
    if not isinstance(ensemble, Ensemble):
        raise InputError(
            f"save_model takes an Ensemble (of a classifier, clf.ensemble_), not a {type(ensemble).__name__}."
        )
    try:
        import mlflow.pyfunc
    except ImportError as error:
        raise MissingExtraError("Saving for MLflow", "mlflow") from error
    if ensemble.model.spec is None:
        raise InputError("MLflow keeps ensembles of built-in networks; export others with export(format='onnx').")
    options.setdefault("pip_requirements", [f"nu-ensembles=={__version__}"])
    with tempfile.TemporaryDirectory() as folder:
        ensemble.save(Path(folder, "ensemble"))
        mlflow.pyfunc.save_model(str(path), loader_module=__name__, data_path=str(Path(folder, "ensemble")), **options)


def trusted_types(classifier: Any) -> list[str]:
    """Names of the classes of this package that a classifier is made of, for skops and `mlflow.sklearn`.

    Both take nothing on loading that is not scikit-learn's or NumPy's unless it is named. Classes from elsewhere, such
    as a transformer of one's own, are not in the list: whether these are to be trusted, nobody here knows.
    """
    try:
        import skops.io
    except ImportError as error:
        raise MissingExtraError("Saving with skops", "mlflow") from error
    found = skops.io.get_untrusted_types(data=skops.io.dumps(classifier))
    return [name for name in found if name.startswith("nu_ensembles.")]


class LoadedByMLflow:
    """What MLflow asks: `predict` of a frame or an array gives a frame of probabilities."""

    def __init__(self, ensemble: Ensemble) -> None:
        self.ensemble = ensemble

    def predict(self, model_input: Any, params: dict[str, Any] | None = None) -> Any:
        import pandas

        rows = model_input
        if self.ensemble.encoding is None and self.ensemble.columns is None:
            rows = np.asarray(model_input)
        return pandas.DataFrame(self.ensemble.predict_proba(rows), columns=self.ensemble.classes)


def _load_pyfunc(path: str) -> LoadedByMLflow:
    """What MLflow calls, by this name."""
    return LoadedByMLflow(Ensemble.load(path))
