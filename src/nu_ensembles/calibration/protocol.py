"""What a calibrator is: a map of probabilities, fitted on labelled rows that the model was not trained on.

One file in this folder is one calibrator: a frozen dataclass of its options with `name` and `_fitted`, and a frozen
dataclass of what was fitted with `_calibrated`. The classes here check what comes in from outside and see to it that
what goes out is never nan and sums to one.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from nu_ensembles.checks import check_array, check_positive, checked
from nu_ensembles.errors import InputError
from nu_ensembles.metrics.inputs import Ints, check_labels, check_member_probs, mean_probability

Values = NDArray[np.float64]
State = dict[str, Any]


class LabelledRows(NamedTuple):
    """Predictions and labels of the rows that count.

    members: `[K, N, C]`, probabilities; probs: `[N, C]`, their mean.
    labels: `[N]`; weight: `[N]`, above 0 with mean one.
    """

    members: Values
    probs: Values
    labels: Ints
    weight: Values

    @property
    def n_classes(self) -> int:
        return self.probs.shape[1]


@dataclasses.dataclass(frozen=True, eq=False)
class FittedCalibrator:
    """A calibrator that has seen labels: `apply` maps probabilities, `state` and `from_state` are for storing it.

    Attributes:
      n_classes: C; its fields beside that are numbers and arrays.
    """

    n_classes: int

    name: ClassVar[str]
    takes_members: ClassVar[bool] = False

    @checked
    def apply(self, probabilities: ArrayLike) -> Values:
        """Calibrated probabilities `[N, C]`.

        Args:
          probabilities: predictions `[N, C]`, or the members' `[K, N, C]`.
        """
        members = check_members(probabilities)
        if members.shape[2] != self.n_classes:
            raise InputError(
                f"The calibrator was fitted on {self.n_classes} classes but the probabilities have "
                f"{members.shape[2]}: give those of the same model."
            )
        return normalised(self._calibrated(members if self.takes_members else mean_probability(members)))

    def _calibrated(self, probs: Values) -> Values:
        """Of checked probabilities `[N, C]`, or `[K, N, C]` where it `takes_members`; rows need not sum to one."""
        raise NotImplementedError

    def fits_together(self) -> bool:
        """Whether it calibrates a row that every calibrator can."""
        try:
            with np.errstate(all="ignore"):
                uniform = np.full((1, 1, self.n_classes), 1.0 / self.n_classes)
                calibrated = self._calibrated(uniform if self.takes_members else uniform[0])
        except (ValueError, IndexError, ZeroDivisionError, MemoryError):
            return False
        return calibrated.shape == (1, self.n_classes) and bool(np.isfinite(calibrated).all())

    def state(self) -> State:
        """Its name, numbers and arrays; `calibration.restore` makes the calibrator of it again."""
        return {"calibrator": self.name} | {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    @classmethod
    @checked
    def from_state(cls, state: Mapping[str, Any]) -> Self:
        """The calibrator again.

        Args:
          state: what `state` returned, also after a round through JSON.
        """
        wanted = {field.name: field.type for field in dataclasses.fields(cls)}
        if (
            not isinstance(state.get("calibrator"), str)
            or state["calibrator"] != cls.name
            or set(state) != {"calibrator", *wanted}
        ):
            raise InputError(f"This is not the state of the calibrator {cls.name!r}: give what its state() returned.")
        calibrator = cls(**{name: _plain(name, state[name], str(kind)) for name, kind in wanted.items()})
        if not calibrator.fits_together():
            raise InputError(f"The state of the calibrator {cls.name!r} does not fit together: save it again.")
        return calibrator


class Calibrator:
    """The options of a calibrator; `fit` returns what was fitted.

    Attributes:
      takes_members: whether it is fitted on the members' predictions instead of their mean.
    """

    name: ClassVar[str]
    takes_members: ClassVar[bool] = False

    @checked
    def fit(self, probabilities: ArrayLike, labels: ArrayLike, weight: ArrayLike | None = None) -> FittedCalibrator:
        """Fits on rows that the model was not trained on.

        Args:
          probabilities: `[N, C]`, or the members' `[K, N, C]`.
          labels: `[N]`, 0 … C-1; not every class has to occur.
          weight: `[N]`, how much each row counts; only their ratios matter.
        """
        return self._fitted(labelled_rows(probabilities, labels, weight))

    def _fitted(self, rows: LabelledRows) -> FittedCalibrator:
        """`fit` on checked rows."""
        raise NotImplementedError


def check_strengths(calibrator: Any) -> None:
    """Every option of a calibrator is the strength of a prior."""
    for field in dataclasses.fields(calibrator):
        check_positive(getattr(calibrator, field.name), field.name, zero_allowed=True)


def check_members(probabilities: ArrayLike) -> Values:
    """Checked probabilities `[K, N, C]` whose rows sum to one as exactly as float64 can; `[N, C]` is one member."""
    array = check_array(probabilities, "probabilities")
    # One class leaves nothing to calibrate, but is not wrong.
    one_class = array.ndim in (2, 3) and array.shape[-1] == 1 and array.size > 0 and bool((array == 1).all())
    members = np.ones((1, array.shape[-2], 1)) if one_class else check_member_probs(array)
    return normalised(members.astype(np.float64))


def labelled_rows(probabilities: ArrayLike, labels: ArrayLike, weight: ArrayLike | None = None) -> LabelledRows:
    """Checks what calibrators are fitted on, and leaves rows of weight zero out."""
    members = check_members(probabilities)
    n_rows = members.shape[1]
    checked = check_labels(labels, n_rows, members.shape[2])
    share = np.ones(n_rows) if weight is None else check_weight(weight, n_rows)
    counts = share > 0
    members, share = members[:, counts], share[counts]
    return LabelledRows(members, mean_probability(members), checked[counts], share / share.mean())


def check_weight(weight: ArrayLike, n_rows: int) -> Values:
    """Weights `[N]` that are finite, not negative and not all zero."""
    try:
        share = np.asarray(weight, np.float64)
    except (TypeError, ValueError):
        raise InputError("The weights are not numbers: give one number for each row.") from None
    if share.shape != (n_rows,):
        raise InputError(f"The weights have shape {share.shape} where ({n_rows},) is expected: give one for each row.")
    if not np.isfinite(share).all() or (share < 0).any() or not (share > 0).any():
        raise InputError("The weights must be finite and not negative, and at least one must be above zero.")
    return share / share.max()  # sums of huge weights would overflow


def normalised(probs: Values) -> Values:
    """Rows that sum to one; a row of zeros becomes uniform."""
    sums = probs.sum(axis=-1, keepdims=True)
    return np.where(sums > 0, probs / np.where(sums > 0, sums, 1.0), 1.0 / probs.shape[-1])


def _plain(name: str, value: Any, kind: str) -> Any:
    """A number or an array, as the field's annotation says."""
    try:
        array = np.asarray(value, np.int64 if kind == "int" else np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.array(np.nan)
    if not np.isfinite(array).all() or (array.ndim != 0 and kind in ("int", "float")):
        raise InputError(f"The calibrator's {name} is not finite numbers: its state is damaged, save it again.")
    return {"int": int, "float": float}.get(kind, np.asarray)(array)
