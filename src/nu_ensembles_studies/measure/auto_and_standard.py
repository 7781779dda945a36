"""beta = "auto" beside standard ensembles: stopped early, the same with a temperature, and trained to the last epoch.

All are ensembles of the same networks on the same rows, scaled alike, from one seed; only beta and the number of steps
differ. The search inside auto stops the early-stopped one, at its line beta = 0, and gives the temperature.
"""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from nu_ensembles import fit, tuning
from nu_ensembles.estimator import NuEnsembleClassifier
from nu_ensembles.methods import Nu, Standard
from nu_ensembles.metrics import evaluate
from nu_ensembles.metrics.temperature import scale_temperature
from nu_ensembles_studies.declare.cells import StudyCell
from nu_ensembles_studies.declare.networks import network
from nu_ensembles_studies.declare.protocols import OTHER_TOLERANCES, TOLERANCE
from nu_ensembles_studies.measure.parts import Parts
from nu_ensembles_studies.results.json_numbers import plain


class AutoAndStandard:
    """A classifier that chooses beta, and ensembles that train as its own does.

    Args:
      auto: not fitted yet, with beta = "auto".
      x, y, x_unlabeled: what all of them train on.
      x_test: what they predict.

    Attributes:
      search: what auto found.
      chosen: what auto itself predicts, `[K, N, C]`.
      temperature: of the early-stopped standard ensemble, out of fold.
      seconds: that fitting auto took.
    """

    def __init__(self, auto: NuEnsembleClassifier, x: Any, y: Any, x_unlabeled: Any, x_test: Any) -> None:
        started = time.perf_counter()
        self.auto = auto.fit(x, y, X_unlabeled=x_unlabeled)
        self.seconds = time.perf_counter() - started
        assert auto.search_ is not None, "beta='auto' always searches"
        self.search = auto.search_
        self.temperature = tuning.temperature_of(self.search.out_of_fold, 0)
        self.rows, self.x_test = (x, y, x_unlabeled), x_test
        self.chosen = auto.predict_members(x_test)
        self._known = {(self.search.beta, self.search.n_steps): self.chosen}

    def trained(self, beta: float, n_steps: int) -> np.ndarray:
        """Probabilities `[K, N, C]` on the test rows of the ensemble with a beta, trained for so many steps."""
        if (beta, n_steps) not in self._known:
            self._known[beta, n_steps] = self._train(beta, n_steps)
        return self._known[beta, n_steps]

    def _train(self, beta: float, n_steps: int) -> np.ndarray:
        auto, own = self.auto, self.auto.ensemble_
        ensemble = fit(
            own.model,
            *self.rows,
            method=Nu(beta) if beta else Standard(),
            n_members=auto.n_members,
            steps=n_steps,
            seed=own.training["seed"],
            standardize=own.standardisation is not None,
            learning_rate=auto.learning_rate,
            batch_size=auto.batch_size,
            verbose=auto.verbose,
        )
        return ensemble.predict_members(self.x_test)

    @property
    def early_stopped(self) -> np.ndarray:
        return self.trained(0.0, self.search.standard_steps)

    @property
    def early_temperature(self) -> np.ndarray:
        """The scaled mean of the early-stopped ensemble, `[1, N, C]`."""
        return scale_temperature(self.early_stopped.mean(axis=0, dtype=np.float64), self.temperature)[None]

    @property
    def last_epoch(self) -> np.ndarray:
        return self.trained(0.0, int(self.search.steps[-1]))


def auto_and_standard_scores(cell: StudyCell, parts: Parts) -> dict[str, Any]:
    """The scores of the four ensembles, of auto with less caution and with more, and what the search chose.

    Networks are the classifier's own perceptrons unless the cell names others, which need images.
    """
    model: Any = network(cell, parts.n_classes)
    x, u, x_test = parts.x, parts.x_unlabeled, parts.x_test
    if cell.model == "mlp":
        # The classifier's own, which takes pixels as it takes any other columns.
        model, (x, u, x_test) = "mlp", (each.reshape(len(each), -1) for each in (x, u, x_test))
    settings = {"tolerance": TOLERANCE, "max_iter": cell.epochs[-1], "random_state": cell.seed}
    auto = NuEnsembleClassifier(cell.n_members, model=model, **settings)
    compared = AutoAndStandard(auto, x, parts.y, u, x_test)
    members = {
        "auto": compared.chosen,
        "early_stopped": compared.early_stopped,
        "early_temperature": compared.early_temperature,
        "last_epoch": compared.last_epoch,
    }
    betas = {}
    for tolerance in OTHER_TOLERANCES:
        choice = tuning.choose(compared.search.out_of_fold, tolerance, compared.search.more_rows)
        members[f"tolerance_{tolerance:g}"] = compared.trained(choice.beta, choice.n_steps)
        betas[f"beta_{tolerance:g}"] = choice.beta
    codes = np.searchsorted(auto.classes_, parts.y_test)
    scores = {name: plain(evaluate(each, codes)) for name, each in members.items()}
    chosen = {
        "beta": float(auto.beta_),
        "n_steps": int(auto.n_steps_),
        "standard_steps": int(compared.search.standard_steps),
        "temperature": float(compared.temperature),
        "seconds": compared.seconds,
        **betas,
    }
    return {"test": scores["auto"], **scores, "choice": chosen}
