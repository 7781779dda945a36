"""What a fit says of the unlabelled rows once the members are trained: whether they differ, what to expect there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from nu_ensembles.calibration import FittedCalibrator, FittedOtherPriors
from nu_ensembles.deployment.accuracy import (
    AccuracyEstimate,
    accuracy_by_agreement,
    accuracy_by_validation,
    accuracy_under_shift,
    accuracy_without_shift,
)
from nu_ensembles.deployment.expected import DeploymentExpectation, expect
from nu_ensembles.deployment.priors import Priors, estimate_priors
from nu_ensembles.deployment.rule import Decision
from nu_ensembles.deployment.shift import FEWEST_ROWS, Shift, comparable, settled_columns, unseen_columns
from nu_ensembles.problem import Problem

# Where nearly all rows can be told apart, more than class shares differs.
MOST_AUROC = 0.95


class HeldOutPredictions(NamedTuple):
    """What networks say of labelled rows that they had not seen.

    probabilities: `[N, C]`; y: int `[N]`; rows: int `[N]`, their numbers; weight: `[N]`.
    """

    probabilities: np.ndarray
    y: np.ndarray
    rows: np.ndarray
    weight: np.ndarray


class LookAhead(NamedTuple):
    """What there is to say.

    expected: None where nothing was held out that could tell.
    told: what the verdict says of it.
    priors: class shares there, where only these differ; calibrator: what is applied, moved to them if they do.
    """

    expected: DeploymentExpectation | None
    told: str
    priors: Priors | None
    calibrator: FittedCalibrator | None


def look_ahead(
    problem: Problem,
    shift: Shift | None,
    of_members: np.ndarray,
    mean: np.ndarray,
    *,
    held_out: HeldOutPredictions | None = None,
    decision: Decision | None = None,
    calibrator: FittedCalibrator | None = None,
    with_priors: bool = False,
    validated: bool = False,
) -> LookAhead:
    """What to expect on the unlabelled rows.

    Args:
      shift: of these rows against the labelled ones.
      of_members: probabilities `[K, M, C]` of such rows.
      mean: `[M, C]`, the mean of the members, pooled with a companion if there is one.
      held_out: of the candidate that was chosen, where something was.
      decision: of the search, where the rule for rows that differ made it.
      calibrator: what is applied to `mean`.
      with_priors: whether to look for other class shares.
      validated: whether the rows that were held out come from where the unlabelled ones do, and the others do not.
    """
    u = problem.x_unlabeled
    assert u is not None, "members have predicted unlabelled rows"
    told = _of_the_difference(problem, shift, heeded=decision is not None)
    priors = None
    if with_priors and held_out is not None and shift is not None and shift.auroc < MOST_AUROC:
        known = held_out.probabilities, held_out.y
        rows = comparable(problem, problem.x[held_out.rows]), comparable(problem, u)
        priors = estimate_priors(list(problem.classes), *known, mean, *rows, held_out.weight)
    if priors is not None:
        calibrator = FittedOtherPriors(len(problem.classes), priors.ratio, calibrator)
        told += f" {priors.sentence()}"
    estimate = _estimate(shift, of_members, held_out, decision, len(u), validated)
    if estimate is None:
        return LookAhead(None, told, priors, calibrator)
    predicted = mean if calibrator is None else calibrator.apply(of_members if calibrator.takes_members else mean)
    expected = expect(estimate, predicted, list(problem.classes))
    told += f" {expected.sentence()}{_absent(expected, list(problem.classes))}"
    return LookAhead(expected, f"{told} {expected.limit}" if expected.differs else told, priors, calibrator)


def _of_the_difference(problem: Problem, shift: Shift | None, heeded: bool) -> str:
    """What the test says, unless the choice heeded it and its verdict tells; and which columns no label speaks of."""
    told = ""
    if shift is None:
        told = f" With less than {FEWEST_ROWS} rows on a side nothing tells whether the unlabelled ones differ."
    elif shift.differs and not heeded:
        told = f" Note that the unlabelled rows differ from the labelled ones ({shift.in_words()})."
    unseen, settled = unseen_columns(problem), settled_columns(problem)
    if unseen:
        told += f" No labelled row says what these columns mean, which vary among unlabelled rows: {', '.join(unseen)}."
    if settled:
        told += (
            f" These columns are the same in all unlabelled rows, and not in the labelled ones: {', '.join(settled)}."
        )
    return told


def _absent(expected: DeploymentExpectation, classes: Sequence[Any], most: int = 3) -> str:
    """Which classes no unlabelled row is predicted to be of; these may be absent there, or be taken for others."""
    absent = [str(name) for name in classes if str(name) not in expected.by_class]
    if not absent:
        return ""
    further = f" and {len(absent) - most} more" if len(absent) > most else ""
    return f" No unlabelled row is predicted to be of class {', '.join(absent[:most])}{further}."


def _estimate(
    shift: Shift | None,
    of_members: np.ndarray,
    held_out: HeldOutPredictions | None,
    decision: Decision | None,
    n_unlabeled: int,
    validated: bool,
) -> AccuracyEstimate | None:
    if validated and held_out is not None:
        return accuracy_by_validation(held_out.probabilities, held_out.y, of_members.mean(axis=0, dtype=np.float64))
    if decision is not None:
        confidence = float(of_members.mean(axis=0).max(axis=-1).mean())
        return accuracy_under_shift(decision.opinions, confidence)
    if shift is not None and shift.differs:
        return accuracy_by_agreement(of_members) if len(of_members) > 1 else None
    if held_out is None or shift is None:
        return None
    return accuracy_without_shift(held_out.probabilities.argmax(axis=1) == held_out.y, n_unlabeled)
