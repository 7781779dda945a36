"""Self-training: the ensemble labels the unlabelled rows it is surest of, and is trained anew with them, era by era.

Era 0 fits the labelled rows. Before era e = 1 … E the rows of U are labelled by the ensemble's mean probability, and
of those taken for class c the

  e/E * fraction * m * (share of class c among the labels)

most confident join the labelled rows; all members start again. Jain, Tsipras and Madry, *Combining Diverse Feature
Priors*, 2022; Lee, *Pseudo-Label*, 2013. With beta > 0 the rows that have no pseudo-label yet carry random labels
with that weight, as in a nu-ensemble.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np

from nu_ensembles.checks import check_positive, check_whole
from nu_ensembles.errors import InputError
from nu_ensembles.methods.nu import Nu
from nu_ensembles.methods.procedure import Procedure
from nu_ensembles.methods.protocol import Method
from nu_ensembles.methods.trainer import Members, Trainer, TrainingRows


@dataclasses.dataclass(frozen=True)
class SelfTraining(Procedure):
    """An ensemble that labels for itself. Costs E + 1 standard ensembles.

    Attributes:
      eras: E, how often it labels and trains anew.
      fraction: share of the unlabelled rows that has a pseudo-label in the last era.
      pseudo_weight: what a pseudo-labelled row counts against a labelled one.
      beta: weight of the random labels on the other rows; 0 leaves them out.
    """

    eras: int = 5
    fraction: float = 0.8
    pseudo_weight: float = 1.0
    beta: float = 0.0

    name: ClassVar[str] = "self_training"

    def __post_init__(self) -> None:
        check_whole(self.eras, "eras")
        if check_positive(self.fraction, "fraction") > 1:
            raise InputError(f"fraction is a share of the unlabelled rows, above 0 and at most 1, not {self.fraction}.")
        check_positive(self.pseudo_weight, "pseudo_weight")
        check_positive(self.beta, "beta", zero_allowed=True)

    @property
    def uses_unlabeled(self) -> bool:
        return True

    @property
    def base(self) -> Method:
        return Nu(self.beta).effective()

    def carry_out(self, trainer: Trainer) -> Members:
        rows, numbers = trainer.rows, range(trainer.n_members)
        assert rows.x_unlabeled is not None
        shares = np.bincount(rows.y, rows.weight, trainer.n_classes) / rows.weight.sum()
        networks = trainer.train("era-0", self.base, numbers)
        told = []
        for era in range(1, self.eras + 1):
            probabilities = trainer.predict(networks, rows.x_unlabeled).mean(axis=0, dtype=np.float64)
            chosen, labels = pseudo_labels(probabilities, shares, self.fraction * era / self.eras)
            told.append(np.bincount(labels, minlength=trainer.n_classes).tolist())
            joined = with_pseudo_labels(rows, chosen, labels, self.pseudo_weight)
            method = self.base if joined.x_unlabeled is not None else Nu(0.0).effective()
            networks = trainer.train(f"era-{era}", method, numbers, rows=joined)
        return Members(networks, notes={"pseudo_labels_by_era_and_class": told})


def pseudo_labels(probabilities: np.ndarray, shares: np.ndarray, fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """The surest predictions of each class, as many as the class's share allows.

    A class that is predicted for fewer rows than its share gets those; no other class takes its place.

    Args:
      probabilities: `[M, C]`.
      shares: `[C]`, of the classes among the labelled rows; they sum to one.
      fraction: of all rows that should get a label.

    Returns:
      row numbers, ascending, and their labels, int `[n]` each. Equally sure rows go in the order of their numbers.
    """
    predicted, confidence = probabilities.argmax(axis=1), probabilities.max(axis=1)
    surest_first = np.argsort(-confidence, kind="stable")
    label_of = np.full(len(probabilities), -1)
    for label, share in enumerate(shares):
        quota = math.floor(fraction * share * len(probabilities) + 0.5)
        label_of[surest_first[predicted[surest_first] == label][:quota]] = label
    rows = np.flatnonzero(label_of >= 0)
    return rows, label_of[rows]


def with_pseudo_labels(rows: TrainingRows, chosen: np.ndarray, labels: np.ndarray, weight: float) -> TrainingRows:
    """The rows with some of the unlabelled ones labelled; the weights have mean one again."""
    u: Any = rows.x_unlabeled
    weights = np.concatenate([rows.weight, np.full(len(chosen), weight, rows.weight.dtype)])
    left = np.setdiff1d(np.arange(len(u)), chosen)
    return TrainingRows(
        np.concatenate([rows.x, u[chosen]]),
        np.concatenate([rows.y, labels.astype(rows.y.dtype)]),
        weights / weights.mean(dtype=np.float64).astype(weights.dtype),
        u[left] if len(left) else None,
    )
