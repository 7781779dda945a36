"""What a classifier keeps of its fit beside the ensemble, so that `load` gives back what `save` was given.

It stands in the manifest as plain values, under `training["classifier"]`. To keep another attribute, add a row to
`KEPT`: how it becomes plain values, and what they become again.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from nu_ensembles.contents import mapping, plain, text, whole
from nu_ensembles.deployment import DeploymentExpectation, Shift
from nu_ensembles.ensemble import Ensemble
from nu_ensembles.errors import DamagedFileError, DataWarning, InputError
from nu_ensembles.models import Model

if TYPE_CHECKING:
    from nu_ensembles.estimator.any_method import EnsembleClassifier

ENTRY = "classifier"
# Where a fit kept its checkpoints is no matter of the classifier that came out.
_OF_A_RUN = {"run_folder", "resume", "checkpoint_seconds", "verbose"}
Kind = TypeVar("Kind", bound="EnsembleClassifier")


def with_notes(classifier: EnsembleClassifier) -> Ensemble:
    """The trained ensemble, its notes joined by what the classifier knows beside it."""
    params, objects = {}, []
    for name, value in classifier.get_params(deep=False).items():
        if name in _OF_A_RUN:
            continue
        if _is_plain(value):
            params[name] = value
        else:
            objects.append(name)
    entry: dict[str, Any] = {
        "kind": type(classifier).__name__,
        "params": params,
        # A network of one's own is handed to `load`; it is no option that got lost.
        "objects": [name for name in objects if name != "model"],
        "n_features_in": int(getattr(classifier, "n_features_in_", 0)),
        "feature_names_in": [str(name) for name in getattr(classifier, "feature_names_in_", [])],
    }
    for name, (to_plain, _) in KEPT.items():
        entry[name] = to_plain(getattr(classifier, name, None))
    ensemble = classifier.ensemble_
    return dataclasses.replace(ensemble, training={**ensemble.training, ENTRY: entry})


def loaded(kind: type[Kind], folder: str | Path, model: Model | None) -> Kind:
    """The classifier of a folder, of the kind that was asked for or a special case of it."""
    ensemble = Ensemble.load(folder, model)
    entry, where = ensemble.training.get(ENTRY, {}), f"The classifier in {folder}"
    entry = mapping(plain)(entry, where)
    kind = _kind_of(kind, entry.get("kind"), ensemble, folder)
    classifier = kind(**_params(kind, entry, ensemble, where))
    if model is not None:
        classifier.model = model
    classifier.ensemble_, classifier.classes_ = ensemble, ensemble.classes
    _restore_columns(classifier, entry, where)
    classifier.verdict_ = str(ensemble.training.get("verdict", ""))
    classifier.n_steps_ = int(ensemble.training.get("n_steps", 1))
    classifier.calibrator_, classifier.companion_ = ensemble.calibrator, ensemble.companion
    classifier.search_ = None
    for name, (_, from_plain) in KEPT.items():
        try:
            setattr(classifier, name, from_plain(entry.get(name)))
        except (KeyError, TypeError, ValueError) as error:
            raise DamagedFileError(f"{where}: {name!r} was altered ({error}); restore it from a copy.") from error
    lost = entry.get("objects") or []
    if lost:
        note = f"{where} was fitted with {' and '.join(map(str, lost))} of its own, which a file cannot hold"
        warnings.warn(f"{note}: predictions need none, a new fit takes the default.", DataWarning, stacklevel=3)
    return classifier


def _kind_of(asked: type[Kind], stored: Any, ensemble: Ensemble, folder: str | Path) -> type[Kind]:
    from nu_ensembles.estimator.any_method import EnsembleClassifier
    from nu_ensembles.estimator.nu import NuEnsembleClassifier

    kinds = {kind.__name__: kind for kind in (EnsembleClassifier, NuEnsembleClassifier)}
    found = kinds.get(str(stored))
    if found is None:  # saved as an ensemble: the method tells
        found = NuEnsembleClassifier if "beta" in ensemble.training.get("hyper_parameters", {}) else EnsembleClassifier
        found = asked if issubclass(found, asked) or issubclass(asked, found) else found
    if not issubclass(found, asked):
        raise InputError(f"{folder} holds an ensemble of another method; load it with {found.__name__}.load.")
    return found  # pyright: ignore[reportReturnType]


def _params(kind: type, entry: Mapping[str, Any], ensemble: Ensemble, where: str) -> dict[str, Any]:
    """The arguments that were kept; of an ensemble without a classifier those that its notes tell."""
    defaults = {name: each.default for name, each in inspect.signature(kind).parameters.items()}
    stored = entry.get("params")
    if stored is None:
        notes = ensemble.training
        stored = {name: notes[name] for name in ("batch_size", "learning_rate", "weight_decay") if name in notes}
        stored |= {"n_members": ensemble.n_members, "random_state": notes.get("seed")}
        if "method" in defaults and "method" in notes:
            stored["method"] = notes["method"]
    unknown = sorted(set(mapping(plain)(stored, f"{where}: 'params'")) - set(defaults))
    if unknown:
        raise InputError(f"{where} has an argument {unknown[0]!r} that this version does not know; upgrade it.")
    tuples = {name for name, default in defaults.items() if isinstance(default, tuple)}
    return {name: tuple(value) if name in tuples else value for name, value in stored.items()}


def _restore_columns(classifier: EnsembleClassifier, entry: Mapping[str, Any], where: str) -> None:
    ensemble = classifier.ensemble_
    n_features = whole()(entry.get("n_features_in", 0), f"{where}: 'n_features_in'")
    classifier.n_features_in_ = n_features or ensemble.input_shape[0]
    encoding = ensemble.encoding
    known = [each.name for each in encoding.encoders] if encoding is not None and encoding.named else []
    names = entry.get("feature_names_in", known) or []
    if names:
        classifier.feature_names_in_ = np.array([text()(name, f"{where}: a column") for name in names], object)


def _is_plain(value: Any) -> bool:
    """Whether JSON holds it, and gives back the same."""
    if isinstance(value, Mapping):
        return all(isinstance(name, str) and _is_plain(each) for name, each in value.items())
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | bool | int) or (isinstance(value, float) and math.isfinite(value))


def _table(columns: Mapping[str, Any] | None) -> dict[str, list[Any]] | None:
    """Columns as lists; what was not measured, nan, is None."""
    if columns is None:
        return None
    return {
        name: [None if value != value else value for value in np.asarray(column).tolist()]
        for name, column in columns.items()
    }


def _columns(table: Mapping[str, Any] | None) -> dict[str, np.ndarray] | None:
    if table is None:
        return None
    return {name: np.array([math.nan if v is None else v for v in column]) for name, column in table.items()}


def _shift(values: Mapping[str, Any] | None) -> Shift | None:
    return None if values is None else Shift(**{**values, "features": tuple(values.get("features", ()))})


def _expected(values: Mapping[str, Any] | None) -> DeploymentExpectation | None:
    return None if values is None else DeploymentExpectation.from_dict(values)


# Attributes of a fit: as plain values, and back.
KEPT: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "n_iter_": (lambda value: value, lambda value: 1 if value is None else int(value)),
    "temperature_": (
        lambda value: None if value is None or math.isnan(value) else float(value),
        lambda value: math.nan if value is None else float(value),
    ),
    "cv_results_": (_table, _columns),
    "expected_": (lambda value: None if value is None else value.to_dict(), _expected),
    "shift_": (lambda value: None if value is None else dataclasses.asdict(value), _shift),
}
