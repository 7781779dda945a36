"""Maps of probabilities that are fitted on few labels, out of fold: one file each, and the choice among them."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from nu_ensembles.calibration.beta import Beta, FittedBeta
from nu_ensembles.calibration.identity import FittedIdentity, Identity
from nu_ensembles.calibration.isotonic import FittedIsotonic, Isotonic
from nu_ensembles.calibration.matrix_scaling import FittedMatrixScaling, MatrixScaling
from nu_ensembles.calibration.member_temperature import FittedMemberTemperature, MemberTemperature
from nu_ensembles.calibration.other_priors import FittedOtherPriors
from nu_ensembles.calibration.pooling import pool, pooling_weights
from nu_ensembles.calibration.protocol import Calibrator, FittedCalibrator
from nu_ensembles.calibration.selection import AUTO, CalibratorChoice, choose_calibrator
from nu_ensembles.calibration.smoothed_temperature import FittedSmoothedTemperature, SmoothedTemperature
from nu_ensembles.calibration.temperature import FittedTemperature, Temperature
from nu_ensembles.calibration.vector_scaling import FittedVectorScaling, VectorScaling
from nu_ensembles.checks import checked, shown
from nu_ensembles.errors import InputError, unknown_name

__all__ = [
    "AUTO",
    "CALIBRATORS",
    "Beta",
    "Calibrator",
    "CalibratorChoice",
    "FittedCalibrator",
    "Identity",
    "Isotonic",
    "MatrixScaling",
    "MemberTemperature",
    "SmoothedTemperature",
    "Temperature",
    "VectorScaling",
    "build",
    "choose_calibrator",
    "pool",
    "pooling_weights",
    "restore",
]

_BOTH: tuple[tuple[type[Calibrator], type[FittedCalibrator]], ...] = (
    (Identity, FittedIdentity),
    (Temperature, FittedTemperature),
    (SmoothedTemperature, FittedSmoothedTemperature),
    (MemberTemperature, FittedMemberTemperature),
    (VectorScaling, FittedVectorScaling),
    (MatrixScaling, FittedMatrixScaling),
    (Beta, FittedBeta),
    (Isotonic, FittedIsotonic),
)
CALIBRATORS: dict[str, type[Calibrator]] = {options.name: options for options, _ in _BOTH}
_FITTED: dict[str, type[FittedCalibrator]] = {fitted.name: fitted for _, fitted in _BOTH}
_FITTED[FittedOtherPriors.name] = FittedOtherPriors


@checked
def build(name: str, **options: Any) -> Calibrator:
    """A calibrator by its name: `build("temperature", prior=10.0)`.

    Args:
      name: one of `CALIBRATORS`.
      options: its attributes.
    """
    if name not in CALIBRATORS:
        raise unknown_name("calibrator", name, CALIBRATORS)
    known = inspect.signature(CALIBRATORS[name]).parameters
    for option in options:
        if option not in known:
            raise unknown_name(f"option of calibrator {name!r}", option, known)
    return CALIBRATORS[name](**options)


@checked
def restore(state: Mapping[str, Any]) -> FittedCalibrator:
    """A fitted calibrator as it was stored.

    Args:
      state: what its `state()` returned, also after a round through JSON.
    """
    name = state.get("calibrator") if isinstance(state, Mapping) else None
    if not isinstance(name, str) or name not in _FITTED:
        raise InputError(
            f"This is not the state of a calibrator (its name is {shown(name)}): give what state() returned."
        )
    return _FITTED[name].from_state(state)
