"""Every public function with arguments that are right: found from the package's public names and their signatures.

What a parameter is honestly given goes by its name (`World.by_name`), or by the function's and its own (`World.of`). A
function that is left out stands in `LEFT_OUT` with the reason; `tests/torture` holds that there is no third kind.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tally import blobs

import nu_ensembles as nu
from nu_ensembles.datasets import write_predictions

ROOMS = ("calibration", "corruptions", "datasets", "methods", "metrics", "models", "theory")
# Classes whose methods are for users; those of others are for the engine, which calls them within compiled programs.
WITH_METHODS = ("Abstention", "Blend", "Bound", "Calibrator", "ConformalSets", "Ensemble", "EnsembleClassifier")
WITH_METHODS += ("FittedCalibrator", "NuEnsembleClassifier", "TemperatureScaling", "TemperedForest")
# What scikit-learn gives its estimators.
INHERITED = ("get_metadata_routing", "get_params", "set_params", "set_fit_request", "set_score_request")
LEFT_OUT = {
    "errors, raised and not called": """
        DamagedFileError InputError DataWarning IdleMembersWarning NonFiniteLossError""",
    "made by the package, of what was checked": """
        metrics.BrierDecomposition metrics.RiskCoverage theory.Bound theory.EnsemblesBound calibration.CalibratorChoice
        calibration.FittedCalibrator methods.Batch methods.Members methods.Networks methods.Snapshots
        methods.TrainingRows corruptions.CorruptedSet datasets.ImageSet datasets.Table Ensemble""",
    "for those who write a method: what a base class or a protocol is": """
        calibration.Calibrator methods.BaseMethod methods.FeatureForward methods.Forward
        methods.LabelScheme methods.Method methods.ParameterForward methods.Procedure methods.Trainer methods.method""",
    "for those who write a network: called with what JAX traces, or as a decorator": """
        models.join_variables models.logits_and_features models.split_variables models.torch_rule""",
}
Call = tuple[Callable[..., Any], dict[str, Any]]


@dataclasses.dataclass
class World:
    """What honest arguments are taken from: rows, probabilities, trained things, files."""

    place: Path
    seed: int = 0

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        self.place.mkdir(parents=True, exist_ok=True)
        self.x, self.y, self.u = blobs(rng)
        options = {"n_members": 2, "max_iter": 2, "model_options": {"hidden": (4,)}, "random_state": 0, "cv": 2}
        self.fitted: dict[str, Any] = {
            "EnsembleClassifier": nu.EnsembleClassifier(**options).fit(self.x, self.y),
            "NuEnsembleClassifier": nu.NuEnsembleClassifier(beta=0.01, **options).fit(self.x, self.y),
            "TemperedForest": nu.TemperedForest(4, random_state=0).fit(self.x, self.y),
        }
        forests = [nu.TemperedForest(3, random_state=seed) for seed in (0, 1)]
        self.fitted["Blend"] = nu.Blend(forests, cv=2).fit(self.x, self.y)
        self.fitted["Ensemble"] = self.fitted["EnsembleClassifier"].ensemble_
        self.members = rng.dirichlet(np.ones(3), (2, 20))
        self.probabilities, self.labels = self.members.mean(axis=0), np.arange(20) % 3
        self.images = rng.integers(0, 256, (2, 8, 8, 3), np.uint8)
        self.fitted["Calibrator"] = nu.calibration.Temperature()
        self.fitted["FittedCalibrator"] = nu.calibration.VectorScaling().fit(self.probabilities, self.labels)
        for kind, options in ((nu.metrics.Abstention, {"target_error": 0.5}), (nu.metrics.ConformalSets, {})):
            self.fitted[kind.__name__] = kind(**options).fit(self.probabilities, self.labels)
        self.fitted["TemperatureScaling"] = nu.metrics.TemperatureScaling().fit(self.probabilities, self.labels)
        self.bounds = {"member_nll": np.full(2, 0.5), "variance": 0.05, "squared_norms": np.ones(2)} | {
            "n_parameters": 10,
            "n_labeled": 50,
            "n_unlabeled": 100,
            "loss": nu.theory.BoundedLoss(2.0),
        }
        self.fitted["Bound"] = nu.theory.bound(**self.bounds)
        self.fitted["EnsembleClassifier"].save(self.place / "model")
        self.fitted["NuEnsembleClassifier"].save(self.place / "nu-model")
        np.save(self.place / "rows.npy", self.x)
        write_predictions(self.place / "rows.csv", self.probabilities, ["a", "b", "c"])
        self.number = 0

    def new(self, ending: str) -> Path:
        """A path where nothing is."""
        self.number += 1
        return self.place / f"new-{self.number}{ending}"

    def by_name(self) -> dict[str, Any]:
        """What a parameter of a name is honestly given, in whatever function."""
        return {
            **dict.fromkeys(("probs", "probabilities", "ood_probs"), self.probabilities),
            **dict.fromkeys(("member_probs", "ood_member_probs"), self.members),
            **self.bounds,
            "labels": self.labels,
            "sets": self.probabilities > 0.2,
            "images": self.images,
            "name": "fog",
            "X": self.x,
            "x": self.x,
            "y": self.y,
            "n_classes": 3,
            "n_members": 2,
            "n_points": 5,
            "n_train": 8,
            "seed": 0,
            "n_rows": 20,
            "sizes": {"train": 5},
            "grid": (0.5, 1.0),
            "width": 2.0,
            "scale": 1.0,
            "bounds": [self.fitted["Bound"]] * 2,
            "nll_range": 2.0,
            "complexity_range": 1.0,
            "gamma": 1.0,
            "other": self.fitted["Ensemble"],
            "rows": self.u,
            "target_error": 0.5,
            "hidden": (4,),
            "fold_of": np.arange(20) % 2,
            "row_shape": (4,),
            "x_shape": (8, 8, 3),
            "classes": np.arange(3),
            "classifiers": self.fitted["Blend"].classifiers,
            "options": {},
            "folder": self.place / "model",
            "init": lambda key, x: {},
            "apply": lambda variables, x, **_: x,
            "pixels": False,
            "spec": self.spec,
            "chosen": nu.methods.Nu(),
            "state": self.fitted["TemperedForest"].state(),
            "standardisation": self.fitted["Ensemble"].standardisation,
            "model": "mlp",
            "method": "nu",
        }

    @property
    def spec(self) -> dict[str, Any]:
        return {"name": "mlp", "n_classes": 3, "options": {"hidden": [4]}}

    def of(self) -> dict[str, dict[str, Any]]:
        """What a function's own parameters are honestly given, where their names say something else elsewhere."""
        short = {"model": nu.models.mlp(3, hidden=(4,)), "steps": 2, "n_members": 2, "x_unlabeled": None}
        rows = {"X": self.x[:8], "y": self.y[:8], "X_unlabeled": None}
        member = {"probabilities": self.probabilities, "labels": self.labels}
        return {
            "fit": short | {"x": self.x, "y": self.y},
            "tune": {
                "space": {"learning_rate": {"log": [1e-4, 1e-2]}},
                "n_trials": 1,
                "max_iter": 2,
                "n_members": 1,
                "cv": 2,
                "model_options": {"hidden": (4,)},
            },
            "models.ModelSpec": {"name": "mlp", "options": ()},
            "models.build": {"name": "mlp", "options": None},
            "models.network_for": {"model": "mlp", "row_shape": (4,)},
            "models.variable_shapes": {"model": nu.models.mlp(3, hidden=(4,))},
            "models.uses_convolution": {"model": nu.models.lenet(3), "x_shape": (1, 8, 8, 3)},
            "models.Model": {"spec": None},
            "models.from_linen": {"module": _module()},
            "models.from_nnx": {"factory": lambda rngs: None},
            "models.from_equinox": {"factory": lambda key: None},
            "models.from_keras": {"factory": lambda: None},
            "models.from_torch": {"factory": lambda: None, "example": np.zeros((1, 4), np.float32)},
            "Model": {"spec": None},
            "methods.build": {"name": "nu"},
            "methods.method_for": {"method": "nu"},
            "calibration.build": {"name": "temperature"},
            "calibration.restore": {"state": self.fitted["FittedCalibrator"].state()},
            "calibration.pool": {"probabilities": [self.probabilities] * 2},
            "calibration.pooling_weights": {"probabilities": [self.probabilities] * 2},
            "calibration.choose_calibrator": {"probabilities": self.members},
            "Calibrator.fit": member,
            "FittedCalibrator.apply": {"probabilities": self.probabilities},
            "FittedCalibrator.from_state": {"state": self.fitted["FittedCalibrator"].state()},
            "datasets.open_rows": {"source": self.place / "rows.npy"},
            "datasets.read_table": {"path": self.place / "rows.csv", "target": "prediction"},
            "datasets.write_predictions": {"path": self.new(".csv"), "classes": ["a", "b", "c"]},
            "datasets.published_split": {"n_rows": 20, "n_validation": 2, "n_unlabeled": 2},
            "datasets.load_cifar10": {"data_dir": self.place, "may_download": False, "verbose": 0},
            "datasets.load_cifar100": {"data_dir": self.place, "may_download": False, "verbose": 0},
            "corruptions.corrupt_all": {"names": ("fog",), "severities": (1,), "verbose": False, "n_processes": 1},
            "theory.best_bound": {**self.bounds, "gamma": None},
            "theory.simulated_variance": {"n_points": 10},
            "metrics.evaluate": {"n_resamples": 20},
            "Ensemble.differences": {"model": self.fitted["Ensemble"].model},
            "Ensemble.save": {"folder": self.new("")},
            "Ensemble.export": {"path": self.new(".onnx")},
            "EnsembleClassifier.save": {"folder": self.new("")},
            "NuEnsembleClassifier.save": {"folder": self.new("")},
            "EnsembleClassifier.fit": rows,
            "NuEnsembleClassifier.fit": rows,
            "EnsembleClassifier.report": {"path": self.new(".html")},
            "NuEnsembleClassifier.report": {"path": self.new(".html")},
            "NuEnsembleClassifier.load": {"folder": self.place / "nu-model"},
        }

    def call(self, name: str) -> Call:
        """A function, and arguments that are right for it."""
        function = self._function(name)
        parameters = inspect.signature(function).parameters
        own, usual = self.of().get(name, {}), self.by_name()
        right = {}
        for parameter, how in parameters.items():
            if how.kind in (how.VAR_POSITIONAL, how.VAR_KEYWORD) or parameter == "self":
                continue
            if parameter in own:
                right[parameter] = own[parameter]
            elif how.default is how.empty:
                right[parameter] = usual[parameter]
        if any(how.kind is how.VAR_KEYWORD for how in parameters.values()):
            right |= {each: value for each, value in own.items() if each not in parameters and value is not None}
        return function, right

    def _function(self, name: str) -> Callable[..., Any]:
        first, _, method = name.partition(".")
        if first in self.fitted and method:
            # A copy: what is called may change the thing itself.
            return getattr(copy.copy(self.fitted[first]), method)
        found: Any = nu
        for part in name.split("."):
            found = getattr(found, part)
        return found


def names() -> list[str]:
    """All public functions, constructors, and the methods of what users hold in their hands."""
    found: dict[str, Any] = {name: getattr(nu, name) for name in nu.__all__}
    for room in ROOMS:
        inside = getattr(nu, room)
        found |= {f"{room}.{name}": getattr(inside, name) for name in inside.__all__}
    # A name at two places is one function.
    functions = {name: each for name, each in found.items() if callable(each) and not inspect.ismodule(each)}
    for each in list(functions.values()):
        if inspect.isclass(each) and each.__name__ in WITH_METHODS:
            public = [m for m in dir(each) if not m.startswith("_") and m not in INHERITED]
            methods = {f"{each.__name__}.{method}": getattr(each, method) for method in public}
            functions |= {called: method for called, method in methods.items() if callable(method)}
    return sorted(functions)


def called_names() -> list[str]:
    """Those that the campaign calls: all but what `LEFT_OUT` names."""
    left_out = {name for group in LEFT_OUT.values() for name in group.split()}
    return [name for name in names() if name not in left_out]


def parameters_of(function: Callable[..., Any], right: Mapping[str, Any]) -> list[str]:
    """The parameters that can be given by name."""
    by_name = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    named = [name for name, how in inspect.signature(function).parameters.items() if how.kind in by_name]
    return [name for name in dict.fromkeys([*named, *right]) if name != "self"]


def _module() -> Any:
    from flax import linen as nn

    return nn.Dense(3)
