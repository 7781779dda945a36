"""What people pick for a table with few labels, each as its own documentation shows it: name -> classifier.

Columns are standardised where a method compares distances or adds columns up; trees take them as they are. Nothing is
tuned by hand, and no method sees a test row. Those of scikit-learn and of this package are always there; LightGBM and
CatBoost where they are installed, TabPFN and TabICL where, besides, their weights lie in the data folder: nothing is
downloaded.
"""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles.datasets.cifar import DATA_FOLDER
from nu_ensembles.errors import InputError
from nu_ensembles.estimator import EnsembleClassifier, NuEnsembleClassifier, TemperedForest
from nu_ensembles_studies.shifts.tables import data_folder

TREES = 300
# Of the folds that a rival makes by itself.
FOLDS = 5
WEIGHTS = "weights"


@dataclasses.dataclass(frozen=True)
class Split:
    """What a rival may know before it is fitted.

    Attributes:
      seed: of the cell.
      n_members: of an ensemble of networks.
      fewest: rows of the rarest class among the labelled ones, which bounds the number of stratified folds.
    """

    seed: int
    n_members: int
    fewest: int

    @property
    def folds(self) -> int:
        return max(2, min(FOLDS, self.fewest))


@dataclasses.dataclass(frozen=True)
class Rival:
    """A classifier to compare.

    Attributes:
      title: for readers.
      package: on PyPI; its version is kept with the scores.
      make: the classifier, not fitted.
      unlabeled: "" if it takes labelled rows alone, "rows" if its `fit` takes `X_unlabeled`, "marked" if it takes
        rows of the label -1.
    """

    title: str
    package: str
    make: Callable[[Split], Any]
    unlabeled: str = ""

    @property
    def version(self) -> str:
        """ "scikit-learn 1.9.1".

        Raises:
          InputError: it is not installed.
        """
        if self.package == "nu-ensembles":
            from nu_ensembles._version import __version__

            return f"{self.package} {__version__}"
        try:
            return f"{self.package} {metadata.version(self.package)}"
        except metadata.PackageNotFoundError:
            raise InputError(
                f"{self.title} needs `pip install {self.package}`; or leave it out of --methods."
            ) from None


def _logistic_regression(split: Split) -> Any:
    from sklearn.linear_model import LogisticRegressionCV

    # By the loss that is compared, on folds in which a rare class may be missing.
    options: Any = {"scoring": _minus_nll, "max_iter": 1000}  # scikit-learn's annotations know no functions here
    return _scaled(LogisticRegressionCV(cv=split.folds, **options))


def _minus_nll(classifier: Any, X: Any, y: Any) -> float:
    known = np.isin(y, classifier.classes_)
    probabilities = classifier.predict_proba(X)[known]
    of_label = probabilities[np.arange(len(probabilities)), np.searchsorted(classifier.classes_, y[known])]
    return float(np.log(np.maximum(of_label, np.finfo(np.float32).tiny)).mean()) if known.any() else 0.0


def _random_forest(split: Split) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(TREES, random_state=split.seed)


def _gradient_boosting(split: Split) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier

    return HistGradientBoostingClassifier(random_state=split.seed)


def _svm(split: Split) -> Any:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.svm import SVC

    options: Any = {"ensemble": False, "cv": split.folds}
    return _scaled(CalibratedClassifierCV(SVC(), **options))


def _gaussian_process(split: Split) -> Any:
    from sklearn.gaussian_process import GaussianProcessClassifier
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    # Distances of standardised rows grow with the columns; the length is fitted from there.
    return _scaled(GaussianProcessClassifier(ConstantKernel(1.0) * RBF(5.0, (0.1, 1000.0)), random_state=split.seed))


def _mlp(split: Split) -> Any:
    from sklearn.neural_network import MLPClassifier

    return _scaled(MLPClassifier(max_iter=1000, random_state=split.seed))


def _self_training(split: Split) -> Any:
    from sklearn.linear_model import LogisticRegression
    from sklearn.semi_supervised import SelfTrainingClassifier

    return _scaled(SelfTrainingClassifier(LogisticRegression(max_iter=1000)))


def _label_spreading(split: Split) -> Any:
    from sklearn.semi_supervised import LabelSpreading

    # Neighbours, because the default kernel's width suits rows of a few columns alone.
    return _scaled(LabelSpreading(kernel="knn"))


def _lightgbm(split: Split) -> Any:
    from lightgbm import LGBMClassifier  # pyright: ignore[reportMissingImports]

    return LGBMClassifier(random_state=split.seed, n_jobs=1, verbose=-1)


def _catboost(split: Split) -> Any:
    from catboost import CatBoostClassifier  # pyright: ignore[reportMissingImports]

    quiet = {"verbose": False, "allow_writing_files": False}
    return CatBoostClassifier(random_seed=split.seed, thread_count=1, **quiet)


def _tabpfn(split: Split) -> Any:
    weights = weights_of("tabpfn")
    from tabpfn import TabPFNClassifier  # pyright: ignore[reportMissingImports]

    return TabPFNClassifier(model_path=str(weights), device="cpu", random_state=split.seed)


def _tabicl(split: Split) -> Any:
    weights = weights_of("tabicl")
    from tabicl import TabICLClassifier  # pyright: ignore[reportMissingImports]

    options = {"model_path": str(weights), "allow_auto_download": False}
    return TabICLClassifier(**options, device="cpu", random_state=split.seed)


def _scaled(classifier: Any) -> Any:
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    return make_pipeline(StandardScaler(), classifier)


def weights_of(name: str) -> Path:
    """The file of a pretrained model's weights: weights/NAME….ckpt in the folder that NU_ENSEMBLES_DATA names.

    Raises:
      InputError: it is not there.
    """
    folder = data_folder()
    found = [] if folder is None else sorted((folder / WEIGHTS).glob(f"{name}*.ckpt"))
    if not found or importlib.util.find_spec(name) is None:
        raise InputError(
            f"{name} needs `pip install {name}` and its weights as {WEIGHTS}/{name}….ckpt in the folder that "
            f"{DATA_FOLDER} names; or leave it out of --methods."
        )
    return found[0]


SKLEARN, OURS = "scikit-learn", "nu-ensembles"
RIVALS = {
    "nu": Rival("ν, default", OURS, lambda s: NuEnsembleClassifier(s.n_members, random_state=s.seed), "rows"),
    "standard": Rival(
        "Standard ensemble, early-stopped",
        OURS,
        lambda s: EnsembleClassifier("standard", s.n_members, early_stopping=True, random_state=s.seed),
        "rows",
    ),
    "tempered_forest": Rival("Tempered forest", OURS, lambda s: TemperedForest(TREES, random_state=s.seed)),
    "random_forest": Rival("Random forest", SKLEARN, _random_forest),
    "logistic_regression": Rival("Logistic regression, cross-validated", SKLEARN, _logistic_regression),
    "gaussian_process": Rival("Gaussian process", SKLEARN, _gaussian_process),
    "svm": Rival("SVM, calibrated", SKLEARN, _svm),
    "mlp": Rival("MLP", SKLEARN, _mlp),
    "gradient_boosting": Rival("Gradient boosting", SKLEARN, _gradient_boosting),
    "self_training": Rival("Self-training", SKLEARN, _self_training, "marked"),
    "label_spreading": Rival("Label spreading", SKLEARN, _label_spreading, "marked"),
    "lightgbm": Rival("LightGBM", "lightgbm", _lightgbm),
    "catboost": Rival("CatBoost", "catboost", _catboost),
    "tabpfn": Rival("TabPFN", "tabpfn", _tabpfn),
    "tabicl": Rival("TabICL", "tabicl", _tabicl),
}
