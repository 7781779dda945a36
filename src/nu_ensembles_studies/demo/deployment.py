"""The demo's second act: labels on sharp digits, and a deployment on digits that moved while they were taken.

LeNet on scikit-learn's digits under the package's own motion blur. The shift was chosen because unlabelled images buy
much there, and the length of training because the whole demo should last a minute; both on splits 0 to 3. The demo's
own splits had no part in that. Both ensembles are of the same networks: the standard one stopped early out of fold, and
ν (auto), which also has unlabelled images of the deployment. No label from there is seen before the test.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from threading import Event
from typing import Any

import numpy as np

from nu_ensembles.estimator import NuEnsembleClassifier
from nu_ensembles.metrics import evaluate
from nu_ensembles_studies import shifts
from nu_ensembles_studies.demo.comparison import Comparison
from nu_ensembles_studies.measure.auto_and_standard import AutoAndStandard
from nu_ensembles_studies.results.intervals import METRICS

SHIFT, N_LABELS = "digits.motion_blur-3", 100
# Three folds instead of five: a third less to train, and the demo is to be short.
MODEL, FOLDS = "lenet", 3
TITLE = "blurred digits"
ABOUT = f"{N_LABELS} labels of sharp digits, unlabelled and test images blurred by motion (severity 3); LeNet"
PICKED = (
    "Of the bundled shifts this is one on which unlabelled rows buy much, picked on splits 0 to 3 of the same images, "
    "which are not among those shown."
)
STANDARD, NU = "standard", "nu"
TITLES = {STANDARD: "standard, early-stopped", NU: "ν, auto"}


@dataclasses.dataclass(frozen=True, eq=False)
class DeploymentAct:
    """What was measured on the deployment.

    Attributes:
      comparison: test scores of both ensembles on every seed, the standard one first.
      betas: that were chosen, a seed each.
      verdicts: what the classifier said, a seed each.
      expected: the accuracy that it expected, its interval, and the true one: `[S, 4]`.
      probabilities: float32 `[S, 2, N, C]`; labels: int `[S, N]`, of the test rows.
    """

    comparison: Comparison
    betas: tuple[float, ...]
    verdicts: tuple[str, ...]
    expected: np.ndarray
    probabilities: np.ndarray = dataclasses.field(repr=False)
    labels: np.ndarray = dataclasses.field(repr=False)

    def pooled(self, row: str) -> tuple[np.ndarray, np.ndarray]:
        """Test probabilities `[S·N, C]` of an ensemble over all seeds, and their labels."""
        of_row = self.probabilities[:, list(self.comparison.rows).index(row)]
        return of_row.reshape(-1, of_row.shape[-1]), self.labels.reshape(-1)

    @property
    def sentence(self) -> str:
        """What came out."""
        nll = [self.comparison.mean(row, "nll").mean for row in (STANDARD, NU)]
        ece = [self.comparison.mean(row, "ece").mean for row in (STANDARD, NU)]
        accuracy = [100 * self.comparison.mean(row, "accuracy").mean for row in (STANDARD, NU)]
        change = 100 * (nll[1] / nll[0] - 1)
        _, low, high, true = self.expected.T
        inside = int(((low <= true) & (true <= high)).sum())
        return (
            f"On {TITLE}, which no label speaks of, ν (auto) changes the NLL by {change:+.0f} % ({nll[0]:.2f} → "
            f"{nll[1]:.2f}), the ECE from {ece[0]:.2f} to {ece[1]:.2f} and the accuracy from {accuracy[0]:.0f} to "
            f"{accuracy[1]:.0f} %; the true accuracy was within what it expected on {inside} of {len(true)} splits."
        ).replace("-", "−")

    def to_dict(self) -> dict[str, Any]:
        """Everything but the predictions, as plain values that JSON can hold."""
        return {
            "shift": SHIFT,
            "n_labels": N_LABELS,
            "sentence": self.sentence,
            "comparison": self.comparison.to_dict(),
            "betas": list(self.betas),
            "verdicts": list(self.verdicts),
            "expected": self.expected.tolist(),
        }

    @classmethod
    def from_dict(cls, entry: Mapping[str, Any], probabilities: np.ndarray, labels: np.ndarray) -> DeploymentAct:
        """The act that `to_dict` was called on; its sentence is made anew."""
        comparison = Comparison.from_dict(entry["comparison"])
        of_seeds = tuple(entry["betas"]), tuple(entry["verdicts"]), np.array(entry["expected"])
        return cls(comparison, *of_seeds, probabilities, labels)


def run_act(
    seeds: tuple[int, ...], n_members: int, max_iter: int, learning_rate: float, stopped: Event
) -> DeploymentAct:
    """Trains and scores both ensembles on every seed.

    Args:
      seeds: splits, each with its own rows and initialisations.
      n_members: of an ensemble.
      max_iter: passes over the labelled rows, at most.
      stopped: when set, no further split is begun.
    """
    found: list[dict[str, Any]] = []
    for seed in seeds:
        if stopped.is_set():
            break
        rows = shifts.load(SHIFT, seed, N_LABELS)
        how: dict[str, Any] = {"max_iter": max_iter, "learning_rate": learning_rate, "cv": FOLDS}
        nu = NuEnsembleClassifier(n_members, model=MODEL, random_state=seed, **how)
        compared = AutoAndStandard(nu, rows.x, rows.y, rows.x_unlabeled, rows.x_test)
        members = {STANDARD: compared.early_stopped, NU: compared.chosen}
        expected = nu.expected_
        assert expected is not None, "there are unlabelled images, and rows were held out"
        right = nu.predict_proba(rows.x_test).argmax(axis=1) == rows.y_test
        found.append(
            {
                "scores": {row: evaluate(each, rows.y_test) for row, each in members.items()},
                "beta": nu.beta_,
                "verdict": nu.verdict_,
                "expected": (expected.accuracy, expected.low, expected.high, float(right.mean())),
                "probabilities": np.stack([each.mean(axis=0).astype(np.float32) for each in members.values()]),
                "labels": rows.y_test,
            }
        )
    scores = {
        metric.key: np.array([[each["scores"][row][metric.key] for each in found] for row in TITLES])
        for metric in METRICS
    }
    return DeploymentAct(
        Comparison(TITLES, tuple(seeds), scores, STANDARD),
        tuple(each["beta"] for each in found),
        tuple(each["verdict"] for each in found),
        np.array([each["expected"] for each in found]),
        np.stack([each["probabilities"] for each in found]),
        np.stack([each["labels"] for each in found]),
    )
