"""From a fitted classifier and rows to what a page of a report is drawn from."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from nu_ensembles.checks import check_array
from nu_ensembles.ensemble import Ensemble, strangers
from nu_ensembles.errors import DataWarning, InputError
from nu_ensembles.problem import check_labels, labelled_rows, only_labelled
from nu_ensembles.report.own import Given, Training
from nu_ensembles.tables import RawTable

if TYPE_CHECKING:
    from nu_ensembles.estimator.fitted import FittedEnsemble

# Columns of a table that are shown beside a doubtful row.
CELLS = 4
_FACTS = {
    "method": "Method",
    "n_steps": "Steps",
    "batch_size": "Labelled rows a step",
    "unlabeled_batch_size": "Unlabelled rows a step",
    "learning_rate": "Learning rate",
    "weight_decay": "Weight decay",
    "n_labelled": "Labelled rows",
    "n_unlabelled": "Unlabelled rows",
    "seed": "Seed",
}


def given_of(classifier: FittedEnsemble, X: Any, y: Any, name: str, row_names: Sequence[str] | None = None) -> Given:
    """What the page of these rows is drawn from.

    Args:
      X: rows, checked as those to predict are.
      y: labels `[n]`, some of which may be missing, or None.
      name: what to call the rows.
      row_names: what to call each of them.
    """
    ensemble = classifier.ensemble_
    with warnings.catch_warnings():
        # Each pass over the rows would say again what the first one said.
        probabilities = ensemble.predict_proba(X)
        warnings.simplefilter("ignore", DataWarning)
        members = ensemble.predict_members(X)
        found = strangers(ensemble, X)
    return Given(
        name=name,
        classes=[str(label) for label in ensemble.classes.tolist()],
        members=members,
        probabilities=probabilities,
        labels=None if y is None else _numbers(y, ensemble.classes, len(probabilities)),
        row_names=row_names,
        images=np.asarray(X) if len(ensemble.row_shape) == 3 and ensemble.row_shape[-1] in (1, 3, 4) else None,
        cells=_cells(X) if isinstance(X, RawTable) else None,
        strange=None if found is None else found.why,
        n_strange=0 if found is None else found.n,
        training=_training(classifier),
        beside=_beside(ensemble),
    )


def _numbers(y: Any, classes: np.ndarray, n_rows: int) -> np.ndarray:
    y = check_array(y, "y")
    if y.shape != (n_rows,):
        raise InputError(f"y has shape {y.shape} where ({n_rows},) is expected: one label per row of X.")
    there, numbers = labelled_rows(y), np.full(n_rows, -1)
    if there.any():
        numbers[there] = check_labels(only_labelled(y, there), classes, int(there.sum()))[1]
    return numbers


def _cells(table: RawTable) -> Any:
    """Gives the first columns' values of some rows, in words."""

    def cells(rows: Sequence[int]) -> Mapping[str, Sequence[str]]:
        few = table[np.asarray(rows, int)]
        return {part.name: ["" if word is None else word for word in part.words()] for part in few.parts[:CELLS]}

    return cells


def _calibrator(ensemble: Ensemble) -> str:
    if ensemble.calibrator is not None:
        return ensemble.calibrator.name
    return "temperature" if ensemble.temperature != 1 else ""


def _beside(ensemble: Ensemble) -> str:
    """What becomes of the mean of the members, in words."""
    calibrator = _calibrator(ensemble).replace("_", " ")
    told = [] if ensemble.companion is None else ["pooled with a forest"]
    return " and ".join([*told, *([f"calibrated by {calibrator}"] if calibrator else [])])


def _training(classifier: FittedEnsemble) -> Training:
    ensemble = classifier.ensemble_
    notes = ensemble.training
    facts = {"Members": str(ensemble.n_members)}
    facts["Network"] = "of your own" if ensemble.model.spec is None else _network(ensemble.model.spec)
    beta = notes.get("hyper_parameters", {}).get("beta")
    facts |= {} if beta is None else {"β": f"{beta:g}"}
    facts |= {title: _shown(notes[name]) for name, title in _FACTS.items() if name in notes}
    if ensemble.companion is not None:
        facts["Companion"] = f"a forest, with a weight of {ensemble.companion.weight:.2f}"
    facts["Calibration"] = _calibrator(ensemble).replace("_", " ") or "none"
    return Training(
        verdict=str(getattr(classifier, "verdict_", "")),
        facts=facts,
        columns=ensemble.describe_columns(),
        search=search_grid(getattr(classifier, "cv_results_", None)),
        shift=_shift(getattr(classifier, "shift_", None)),
        expected=getattr(classifier, "expected_", None),
    )


def _network(spec: Any) -> str:
    options = ", ".join(f"{name} {_shown(value)}" for name, value in dict(spec.options).items() if value is not None)
    return f"{spec.name} ({options})" if options else str(spec.name)


def _shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def search_grid(table: Mapping[str, np.ndarray] | None) -> Any:
    """The grid of a search from its table, for the picture; None where β was not searched."""
    if table is None or len(np.unique(table["beta"])) < 2:
        return None
    betas, at_beta = np.unique(table["beta"], return_inverse=True)
    steps, at_step = np.unique(table["n_steps"], return_inverse=True)
    # Not every candidate was measured at every length.
    nll = np.full((len(betas), len(steps)), np.nan)
    nll[at_beta, at_step] = table["nll"]
    row = int(np.argmax(table["chosen"]))
    return SimpleNamespace(betas=betas, steps=steps, nll=nll, chosen=(int(at_beta[row]), int(at_step[row])))


def _shift(shift: Any) -> str:
    """What the test of the training rows says."""
    if shift is None or math.isnan(shift.auroc):
        return ""
    told = f"a classifier tells them apart with an AUROC of {shift.auroc:.2f} ({shift.low:.2f} … {shift.high:.2f})"
    if shift.p_value < 0.01:
        of = f", most by {', '.join(shift.features)}" if shift.features else ""
        return (
            f"The unlabelled training rows do not come from where the labelled ones come from: {told}{of}. What the "
            "labelled rows say of accuracy and calibration need not hold there."
        )
    return (
        f"Nothing shows that the unlabelled training rows come from elsewhere than the labelled ones: {told}; so many "
        f"rows would have shown a clear difference with a probability of {shift.power:.2f}."
    )
