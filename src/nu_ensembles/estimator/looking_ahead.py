"""What a fit says of the unlabelled rows once the members are trained: what accuracy to expect there, by class."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from nu_ensembles.calibration import FittedCalibrator
from nu_ensembles.companion import Companion
from nu_ensembles.deployment import DeploymentExpectation, Shift, expect
from nu_ensembles.deployment.accuracy import (
    AccuracyEstimate,
    accuracy_by_agreement,
    accuracy_under_shift,
    accuracy_without_shift,
)
from nu_ensembles.deployment.shift import FEWEST_ROWS, unseen_columns
from nu_ensembles.methods import Members
from nu_ensembles.training import TrainingJob, predict_members
from nu_ensembles.tuning import ResultUnderShift, SearchResult

# More unlabelled rows than this hardly change a mean over them.
MOST_ROWS = 1000


class LookAhead(NamedTuple):
    """What there is to say.

    expected: None where there are no unlabelled rows, or nothing was held out that could tell.
    told: what the verdict says of it.
    """

    expected: DeploymentExpectation | None
    told: str


def look_ahead(
    job: TrainingJob,
    members: Members,
    result: SearchResult | None,
    shift: Shift | None,
    calibrator: FittedCalibrator | None = None,
    companion: Companion | None = None,
) -> LookAhead:
    """What to expect on the unlabelled rows.

    Args:
      members: of the job.
      result: of the search that chose beta or the length, if there was one.
      shift: of the unlabelled rows against the labelled ones.
      calibrator: what is applied to the mean of the members, after it was pooled with the companion.
    """
    u = job.problem.x_unlabeled
    if u is None:
        return LookAhead(None, "")
    told = ""
    if shift is None:
        told = f" With less than {FEWEST_ROWS} rows on a side nothing tells whether the unlabelled ones differ."
    elif shift.differs and not isinstance(result, ResultUnderShift):
        told = f" Note that the unlabelled rows differ from the labelled ones ({shift.in_words()})."
    unseen = unseen_columns(job.problem)
    if unseen:
        told += f" No labelled row says what these columns mean, which vary among unlabelled rows: {', '.join(unseen)}."
    drawn = np.sort(np.random.default_rng(0).permutation(len(u))[:MOST_ROWS])
    of_members = predict_members(members, job.settings.dtype, u[drawn])
    estimate = _estimate(result, shift, of_members, len(u))
    if estimate is None:
        return LookAhead(None, told)
    mean = of_members.mean(axis=0, dtype=np.float64)
    if companion is not None:
        mean = companion.pooled(mean, u[drawn])
    predicted = mean if calibrator is None else calibrator.apply(of_members if calibrator.takes_members else mean)
    expected = expect(estimate, predicted, list(job.problem.classes))
    return LookAhead(expected, f"{told} {expected.sentence()}")


def _estimate(
    result: SearchResult | None, shift: Shift | None, of_members: np.ndarray, n_unlabeled: int
) -> AccuracyEstimate | None:
    if isinstance(result, ResultUnderShift):
        confidence = float(of_members.mean(axis=0).max(axis=-1).mean())
        return accuracy_under_shift(confidence, result.decision.confidence, result.decision.flipped)
    if shift is not None and shift.differs:
        return accuracy_by_agreement(of_members) if len(of_members) > 1 else None
    if result is None or shift is None:
        return None
    found = result.out_of_fold
    return accuracy_without_shift(found.probabilities[result.chosen[0]].argmax(axis=1) == found.y, n_unlabeled)
