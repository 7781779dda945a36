"""What a classifier's arguments ask for beside its members: calibrators to choose from, a companion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nu_ensembles.calibration import AUTO, CALIBRATORS, Calibrator, Identity, Temperature, build
from nu_ensembles.errors import InputError, shown
from nu_ensembles.tuning.accompanying import FOREST

NAMES = ("auto", *(name for name, kind in CALIBRATORS.items() if not kind.takes_members))


def check_calibration(calibration: str | Calibrator | None, temperature: bool) -> tuple[Calibrator, ...]:
    """The calibrators to choose from, by the arguments of a classifier; none where none is asked for.

    Args:
      temperature: the older switch, which means calibration="temperature".
    """
    if temperature:
        if calibration is not None and calibration != Temperature.name:
            raise InputError(
                f"temperature=True means calibration='temperature', but calibration is {shown(calibration)}; "
                "leave out one."
            )
        calibration = Temperature.name
    if calibration == "auto":
        return AUTO
    if isinstance(calibration, str) and calibration in CALIBRATORS:
        calibration = build(calibration)
    if not isinstance(calibration, Calibrator | None) or isinstance(calibration, type):
        raise InputError(f"calibration is {shown(calibration)}; give one of {', '.join(NAMES)}, or None.")
    if calibration is None or isinstance(calibration, Identity):
        return ()
    if calibration.takes_members:
        raise InputError(
            f"The calibrator {calibration.name!r} is fitted on members' predictions, and a search keeps their mean; "
            f"choose one of {', '.join(NAMES)}, or fit it on predict_members of labelled rows that you held out."
        )
    return (calibration,)


def check_companion(companion: Any, row_shape: Sequence[int] = (1,)) -> bool:
    """Whether there is to be one.

    Args:
      row_shape: of what the networks get.
    """
    if companion is None:
        return False
    if not isinstance(companion, str) or companion != FOREST:
        raise InputError(
            f"companion is {shown(companion)}; give {FOREST!r} or None. nu.Blend pools any classifiers "
            "with predict_proba."
        )
    if len(row_shape) != 1:
        raise InputError(
            f"companion={FOREST!r} is for tables, and the networks get rows of shape {tuple(row_shape)} here, as of "
            "images or of a large sparse matrix: leave it out."
        )
    return True
