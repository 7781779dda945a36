"""Ensembles on a deployment that differs: what they predict there, and on source rows that nobody trained on.

All have the same networks, rows, seed and number of steps: those at which the standard ensemble's out-of-fold NLL is
lowest. ν (auto) chooses its own steps, and the oracle, which only shows the room, is told the deployment's labels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from nu_ensembles import fit, methods
from nu_ensembles.estimator import EnsembleClassifier, NuEnsembleClassifier
from nu_ensembles.metrics import evaluate
from nu_ensembles.metrics.temperature import fit_temperature, scale_temperature
from nu_ensembles_studies import shifts
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.results.json_numbers import plain

# Of pairs of unlabelled rows that are mixed, and the share of the first: as PseudoCal has them.
N_MIXED, MIXING = 500, 0.65
ORACLE_BETAS = (0.03, 0.1, 0.3, 1.0)
RIVALS: dict[str, methods.AnyMethod] = {
    "label_smoothing": methods.LabelSmoothing(),
    "mixup": methods.Mixup(),
    "confidence_penalty": methods.ConfidencePenalty(),
    "agree_to_disagree": methods.AgreeToDisagree(),
    "self_training": methods.SelfTraining(),
}


def deployment_scores(cell: StudyCell, data_dir: Path | None) -> dict[str, Any]:
    """Scores on the deployment by ensemble, those on the source under `source_…`, and what ν (auto) chose."""
    rows = shifts.load(cell.dataset, cell.seed, cell.n_train, data_dir)
    how: dict[str, Any] = {"max_iter": cell.epochs[-1], "random_state": cell.seed}
    # Unlabelled rows have no part in its training, but in the scaling of columns, as everywhere here.
    standard = EnsembleClassifier("standard", cell.n_members, cell.model, early_stopping=True, **how)
    standard.fit(rows.x, rows.y, X_unlabeled=rows.x_unlabeled)
    nu = NuEnsembleClassifier(cell.n_members, model=cell.model, **how).fit(rows.x, rows.y, X_unlabeled=rows.x_unlabeled)
    of_source = NuEnsembleClassifier(cell.n_members, model=cell.model, **how).fit(
        rows.x, rows.y, X_unlabeled=rows.x_source_test
    )
    predicted = {name: _on(each, rows) for name, each in (("standard", standard), ("nu_auto", nu))}
    predicted["nu_source"] = _on(of_source, rows)
    for name, temperature in (("temperature_scaled", standard.temperature_), ("pseudocal", _pseudocal(standard, rows))):
        parts = (scale_temperature(part.mean(axis=0, dtype=np.float64), temperature) for part in predicted["standard"])
        predicted[name] = tuple(part[None] for part in parts)

    def trained(method: methods.AnyMethod) -> tuple[np.ndarray, ...]:
        ensemble = fit(
            cell.model,
            rows.x,
            rows.y,
            rows.x_unlabeled,
            method=method,
            n_members=cell.n_members,
            steps=standard.n_steps_,
            seed=cell.seed,
            standardize=rows.x.ndim == 2,
            verbose=0,
        )
        return ensemble.predict_members(rows.x_test), ensemble.predict_members(rows.x_source_test)

    predicted |= {name: trained(method) for name, method in RIVALS.items()}
    oracle = [trained(methods.Nu(beta, weighting="labelled_loss")) for beta in ORACLE_BETAS]
    nll = [evaluate(there, rows.y_test)["nll"] for there, _ in (predicted["standard"], *oracle)]
    predicted["oracle"] = (predicted["standard"], *oracle)[int(np.argmin(nll))]
    scores = {name: plain(evaluate(there, rows.y_test)) for name, (there, _) in predicted.items()}
    scores |= {f"source_{name}": plain(evaluate(here, rows.y_source_test)) for name, (_, here) in predicted.items()}
    expected = nu.expected_
    true = float((nu.predict_proba(rows.x_unlabeled).argmax(axis=1) == rows.y_unlabeled).mean())
    chosen = {"beta": nu.beta_, "n_steps": nu.n_steps_, "standard_steps": standard.n_steps_, "accuracy_there": true}
    if expected is not None:
        chosen |= {"expected": expected.accuracy, "expected_low": expected.low, "expected_high": expected.high}
    if nu.shift_ is not None:
        chosen["auroc"] = nu.shift_.auroc
    return {"test": scores["nu_auto"], **scores, "choice": {name: float(value) for name, value in chosen.items()}}


def _on(classifier: EnsembleClassifier, rows: shifts.Shifted) -> tuple[np.ndarray, ...]:
    return classifier.predict_members(rows.x_test), classifier.predict_members(rows.x_source_test)


def _pseudocal(standard: EnsembleClassifier, rows: shifts.Shifted) -> float:
    """The temperature at which mixed unlabelled rows carry the classes predicted for their larger shares (Hu et al.,
    *Pseudo-Calibration*, 2024)."""
    rng, u = np.random.default_rng(0), rows.x_unlabeled
    first, second = rng.integers(0, len(u), (2, N_MIXED))
    mixed = (MIXING * u[first].astype(np.float32) + (1 - MIXING) * u[second].astype(np.float32)).astype(u.dtype)
    labels = standard.predict_members(u[first]).mean(axis=0).argmax(axis=1)
    return fit_temperature(standard.predict_members(mixed).mean(axis=0, dtype=np.float64), labels, 0.0)
