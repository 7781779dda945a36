"""calibration="auto": which calibrator an ensemble's out-of-fold predictions ask for, or none.

Each fold is calibrated by what was fitted on the others, so no label scores its own calibrator. Of those whose gain
over no calibration is clear (its 95 % interval excludes zero) the one with the lowest NLL is taken and fitted on all
rows. The gain that may be claimed is another one: each fold scored with the calibrator that the other folds prefer.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nu_ensembles.calibration.identity import Identity
from nu_ensembles.calibration.matrix_scaling import MatrixScaling
from nu_ensembles.calibration.member_temperature import MemberTemperature
from nu_ensembles.calibration.protocol import (
    Calibrator,
    FittedCalibrator,
    LabelledRows,
    Values,
    check_weight,
    labelled_rows,
)
from nu_ensembles.calibration.smoothed_temperature import SmoothedTemperature
from nu_ensembles.calibration.temperature import Temperature
from nu_ensembles.calibration.vector_scaling import VectorScaling
from nu_ensembles.checks import checked
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.paired import Gain
from nu_ensembles.metrics.scores import label_probability
from nu_ensembles.metrics.temperature import log_probability

AUTO: tuple[Calibrator, ...] = (
    Temperature(),
    SmoothedTemperature(),
    MemberTemperature(),
    VectorScaling(),
    MatrixScaling(),
)
"""What "auto" tries. Beta calibration and isotonic regression are left out: see docs/calibration.md."""


FEWEST_ROWS = 10
"""With fewer rows nothing is taken: two that happen to gain alike would make a narrow interval."""


@dataclasses.dataclass(frozen=True, eq=False)
class CalibratorChoice:
    """A calibrator and the evidence for it.

    Attributes:
      fitted: on all rows; `Identity`'s where nothing is clearly better than no calibration.
      gain: what choosing and calibrating gains on folds that had no part in either.
      names: `[P]`, what was tried, no calibration first.
      losses: `[P, N]`, -log p of the true class, each fold calibrated by what was fitted on the others.
      weight: `[N]`, of these rows; those of weight zero are left out.
    """

    fitted: FittedCalibrator
    gain: Gain
    names: tuple[str, ...]
    losses: Values
    weight: Values

    @property
    def name(self) -> str:
        """Of the calibrator that was chosen; "none" where none was."""
        return self.fitted.name

    def gain_of(self, name: str) -> Gain:
        """What one calibrator, taken by itself, gains out of fold over no calibration.

        Args:
          name: one of `names`.
        """
        return Gain.of(self.losses[self.names.index(name)], self.losses[0], self.weight)

    def as_table(self) -> dict[str, NDArray[Any]]:
        """One row per calibrator as a dict of columns, ready for a data frame; a gain of -0.06 is 6 % lower."""
        gains = [self.gain_of(name) for name in self.names]
        return {
            "calibrator": np.array(self.names),
            "nll": self.losses @ self.weight / self.weight.sum(),
            "gain": np.array([gain.relative for gain in gains]),
            "half_width": np.array([gain.half_width for gain in gains]),
            "chosen": np.array([name == self.name for name in self.names]),
        }

    def sentence(self) -> str:
        """What a user should read. It claims a gain only where the folds outside the choice show one."""
        if self.name == "none":
            return "No calibrator has a clear gain out of fold, so the probabilities are left as they are."
        claim = f"NLL {self.gain.in_words()} than without, on folds that had no part in it (95 % interval)"
        return f"Calibrated by {self.name}: {claim if self.gain.is_clear else 'how much it gains is not clear'}."


@checked
def choose_calibrator(
    probabilities: ArrayLike,
    labels: ArrayLike,
    fold_of: ArrayLike,
    weight: ArrayLike | None = None,
    candidates: Sequence[Calibrator] = AUTO,
) -> CalibratorChoice:
    """Chooses a calibrator by what it does for folds that it was not fitted on.

    Args:
      probabilities: out of fold, `[N, C]` or the members' `[K, N, C]`; without members (K = 1) those calibrators that
        are about members are not tried.
      labels: `[N]`, 0 … C-1.
      fold_of: `[N]`, the number of the fold that held the row out. A single fold, a validation set, is parted in two.
      weight: `[N]`.
      candidates: what to try.
    """
    rows = labelled_rows(probabilities, labels, weight)
    part_of = parts(fold_of, len(np.asarray(labels)))
    if weight is not None:
        part_of = part_of[check_weight(weight, len(part_of)) > 0]
    if len(np.unique(part_of)) == 1:
        part_of = np.arange(len(part_of)) % 2
    tried = (Identity(), *(each for each in candidates if not each.takes_members or len(rows.members) > 1))
    if len({each.name for each in tried}) < len(tried):
        raise InputError("Two of the candidates have the same name: give each calibrator once.")
    losses = np.stack([out_of_fold_losses(each, rows, part_of) for each in tried])
    mean = losses @ rows.weight
    gains = [Gain.of(each, losses[0], rows.weight) for each in losses]
    clear = [gain.is_clear and gain.relative < 0 and len(rows.labels) >= FEWEST_ROWS for gain in gains]
    best = int(np.argmin(np.where(clear, mean, np.inf))) if any(clear) else 0
    gain = Gain.of(_by_the_rule(losses, rows.weight, part_of), losses[0], rows.weight)
    return CalibratorChoice(tried[best]._fitted(rows), gain, tuple(each.name for each in tried), losses, rows.weight)


def parts(fold_of: ArrayLike, n_rows: int) -> NDArray[np.int64]:
    """`[N]`, the fold of each row, checked."""
    folds = np.asarray(fold_of)
    if folds.shape != (n_rows,) or folds.dtype.kind not in "iu":
        raise InputError(f"fold_of must hold the number of each row's fold, {n_rows} integers.")
    return folds.astype(np.int64)


def out_of_fold_losses(calibrator: Calibrator, rows: LabelledRows, part_of: NDArray[np.int64]) -> Values:
    """-log p of the true class `[N]`, each part calibrated by what was fitted on the others."""
    losses = np.empty(len(rows.labels))
    for part in np.unique(part_of):
        here = part_of == part
        others = ~here if (~here).any() else here  # a single row has no others, and shows nothing
        probs = calibrator._fitted(_of(rows, others)).apply(rows.members[:, here])
        losses[here] = -label_probability(log_probability(probs), rows.labels[here])
    return losses


def _of(rows: LabelledRows, which: NDArray[np.bool_]) -> LabelledRows:
    weight = rows.weight[which]
    return LabelledRows(rows.members[:, which], rows.probs[which], rows.labels[which], weight / weight.mean())


def _by_the_rule(losses: Values, weight: Values, part_of: NDArray[np.int64]) -> Values:
    """Losses `[N]`, each part's those of the calibrator that is best on the other parts."""
    taken = np.empty(len(weight))
    for part in np.unique(part_of):
        here = part_of == part
        others = ~here if (~here).any() else here
        taken[here] = losses[np.argmin(losses[:, others] @ weight[others]), here]
    return taken
