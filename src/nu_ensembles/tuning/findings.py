"""What a fit found beside its members: the choice and what it gains, a companion, a calibrator, what to expect.

All of it rests on the out-of-fold predictions of the search and on what the members say of the unlabelled rows.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from nu_ensembles.calibration import Calibrator, FittedCalibrator
from nu_ensembles.companion import Companion
from nu_ensembles.deployment import (
    DeploymentExpectation,
    HeldOutPredictions,
    Priors,
    Shift,
    differs_from_all_labelled,
    look_ahead,
)
from nu_ensembles.deployment.shift import FEWEST_ROWS
from nu_ensembles.training import TrainingJob, UnlabeledPredictions
from nu_ensembles.tuning.accompanying import Accompanied, accompanied
from nu_ensembles.tuning.calibrating import Calibrated, calibrated
from nu_ensembles.tuning.choice import SearchResult
from nu_ensembles.tuning.under_shift import ResultUnderShift
from nu_ensembles.tuning.verdict import search_findings


@dataclasses.dataclass(frozen=True)
class Wanted:
    """What a fit is to find beside its members.

    Attributes:
      calibrators: to choose from; a single one is taken as it is.
      companion: whether a forest is pooled with the networks.
      deployment: whether another rule chooses beta where unlabelled rows come from elsewhere.
      priors: whether probabilities are moved to the class shares of the unlabelled rows, where only these differ.
    """

    calibrators: tuple[Calibrator, ...] = ()
    companion: bool = False
    deployment: bool = False
    priors: bool = False


class Findings(NamedTuple):
    """What was found.

    verdict: all of it in words.
    temperature: out of fold; nan if nothing was held out.
    table: the evidence; None if nothing was chosen. The others are None where there is nothing of the kind.
    """

    verdict: str
    temperature: float
    table: dict[str, Any] | None
    companion: Companion | None
    calibrator: FittedCalibrator | None
    expected: DeploymentExpectation | None
    priors: Priors | None


def findings(
    job: TrainingJob,
    result: SearchResult | None,
    shift: Shift | None,
    wanted: Wanted,
    seen: UnlabeledPredictions | None,
) -> Findings:
    """What there is to tell of a job that was trained as a search chose, or as it was given.

    Args:
      result: of the search, if there was one.
      shift: of the unlabelled rows against the labelled ones.
      wanted: a companion and calibrators only where there was a search.
      seen: what the members say of unlabelled rows; None where there are none.
    """
    verdict, temperature, table = search_findings(result, job.method.name, job.n_steps)
    pooled, fitted = Accompanied(None, None, ""), Calibrated(None, "")
    if wanted.companion and result is not None:
        pooled = accompanied(result, job)
    if wanted.calibrators and result is not None:
        fitted = calibrated(result, wanted.calibrators, pooled.probabilities)
    told = pooled.sentence + fitted.sentence
    if seen is None:
        return Findings(verdict + told, temperature, table, pooled.companion, fitted.calibrator, None, None)
    mean, held_out = seen.probabilities.mean(axis=0, dtype=np.float64), None
    if pooled.companion is not None:
        mean = pooled.companion.pooled(mean, seen.rows)
    if result is not None:
        found = result.out_of_fold
        held_out = HeldOutPredictions(found.probabilities[result.chosen[0]], found.y, found.rows, found.weight)
    ahead = look_ahead(
        job.problem,
        shift,
        seen.probabilities,
        mean,
        held_out=held_out,
        decision=result.decision if isinstance(result, ResultUnderShift) else None,
        calibrator=fitted.calibrator,
        # Validation rows of another place say nothing of how often the networks predict a class here.
        with_priors=wanted.priors and pooled.companion is None and job.validation is None,
        validated=_is_from_there(job, shift),
    )
    verdict += ahead.told + told  # what the rows are like first, then what was done beside the networks
    return Findings(verdict, temperature, table, pooled.companion, ahead.calibrator, ahead.expected, ahead.priors)


def _is_from_there(job: TrainingJob, shift: Shift | None) -> bool:
    """Whether the validation rows come from where the unlabelled ones do, and the labelled rows that train do not."""
    if shift is None or not shift.differs or job.validation is None or len(job.validation.x) < FEWEST_ROWS:
        return False
    return not differs_from_all_labelled(shift, job.problem, job.validation.x)
