"""The calibrator that a search's out-of-fold predictions give, and what is said of it.

The predictions are the mean of a fold's few members at the step that was chosen; no row was predicted by a network that
had seen its label. Calibrators of members have nothing to be fitted on here and are refused.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nu_ensembles.calibration import (
    AUTO,
    CALIBRATORS,
    Calibrator,
    CalibratorChoice,
    FittedCalibrator,
    Identity,
    Temperature,
    build,
    choose_calibrator,
)
from nu_ensembles.checks import check_flag
from nu_ensembles.errors import InputError
from nu_ensembles.tuning.choice import SearchResult

NAMES = ("auto", *(name for name, kind in CALIBRATORS.items() if not kind.takes_members))


class Calibrated(NamedTuple):
    """What a fit keeps of its calibration.

    calibrator: what is applied; None where nothing is.
    sentence: what the verdict says of it; empty where none was asked for.
    """

    calibrator: FittedCalibrator | None
    sentence: str


def check_calibration(calibration: str | Calibrator | None, temperature: bool) -> tuple[Calibrator, ...]:
    """The calibrators to choose from, by the arguments of a classifier; none where none is asked for.

    Args:
      temperature: the older switch, which means calibration="temperature".
    """
    if check_flag(temperature, "temperature"):
        if calibration is not None and calibration != Temperature.name:
            raise InputError(
                f"temperature=True means calibration='temperature', but calibration is {calibration!r}; leave out one."
            )
        calibration = Temperature.name
    if calibration == "auto":
        return AUTO
    if isinstance(calibration, str) and calibration in CALIBRATORS:
        calibration = build(calibration)
    if not isinstance(calibration, Calibrator | None) or isinstance(calibration, type):
        raise InputError(f"calibration is {calibration!r}; give one of {', '.join(NAMES)}, or None.")
    if calibration is None or isinstance(calibration, Identity):
        return ()
    if calibration.takes_members:
        raise InputError(
            f"The calibrator {calibration.name!r} is fitted on members' predictions, and a search keeps their mean; "
            f"choose one of {', '.join(NAMES)}, or fit it on predict_members of labelled rows that you held out."
        )
    return (calibration,)


def calibrated(
    result: SearchResult | None, candidates: tuple[Calibrator, ...], probabilities: np.ndarray | None = None
) -> Calibrated:
    """The choice among the candidates on the chosen candidate's predictions; a single candidate is taken as it is.

    Args:
      result: the search; there is one wherever there are candidates.
      candidates: of `check_calibration`.
      probabilities: out of fold `[N, C]`, in the place of the networks' own: those of their pool with a companion.
    """
    if result is None or not candidates:
        return Calibrated(None, "")
    found = result.out_of_fold
    predicted = found.probabilities[result.chosen[0]] if probabilities is None else probabilities, found.y
    choice = choose_calibrator(*predicted, found.fold_of, found.weight, candidates)
    if len(candidates) == 1:
        fitted = candidates[0].fit(*predicted, found.weight)
        return Calibrated(fitted, _of_the_one(choice, fitted.name))
    if choice.name == Identity.name:
        return Calibrated(None, f" {choice.sentence()[:-1]} (calibration='auto').")
    return Calibrated(choice.fitted, f" {choice.sentence()[:-1]} (calibration='auto').")


def _of_the_one(choice: CalibratorChoice, name: str) -> str:
    gain = choice.gain_of(name)
    told = f"out-of-fold NLL {gain.in_words()} than without" if gain.is_clear else "no clear gain out of fold"
    return f" Calibrated by {name} (calibration={name!r}): {told}."
