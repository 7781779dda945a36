"""Did the expectation stand? Some labelled rows of the deployment, however they were chosen, decide.

Rows that were chosen because members disagree on them are harder than others. So what is expected is asked of the very
rows that came: each has a chance of being right, and the number of right ones varies around their sum.
"""

from __future__ import annotations

import dataclasses

import numpy as np
from scipy.stats import norm

from nu_ensembles.deployment.expected import DeploymentExpectation, chance_of_being_right
from nu_ensembles.errors import InputError

FEWEST = 5
LEVEL = 0.95


@dataclasses.dataclass(frozen=True)
class Confirmation:
    """What labelled rows say of an expectation.

    Attributes:
      n_rows: how many there are.
      accuracy: on these rows.
      expected: what was expected on these very rows; low, high: between what it would be in 95 of 100 cases if the
        interval of the expectation holds.
      stood: whether the accuracy lies between these.
      sentence: in words.
    """

    n_rows: int
    accuracy: float
    expected: float
    low: float
    high: float
    stood: bool
    sentence: str


def confirm(expected: DeploymentExpectation, probabilities: np.ndarray, labels: np.ndarray) -> Confirmation:
    """Compares an expectation with labelled rows.

    Args:
      expected: of the classifier that made the probabilities.
      probabilities: `[N, C]`, what it predicts on the labelled rows.
      labels: `[N]`, their class numbers.

    Raises:
      InputError: there are too few rows to tell anything.
    """
    n = len(labels)
    if n < FEWEST:
        raise InputError(f"There are {n} labelled rows, which confirm nothing: give at least {FEWEST}, better 20.")
    accuracy = float((probabilities.argmax(axis=1) == labels).mean())
    middle, low, high = (chance_of_being_right(probabilities, each) for each in expected.temperatures)
    around = float(norm.isf((1 - LEVEL) / 2))

    def error(right: np.ndarray) -> float:
        return around * float((right * (1 - right)).sum()) ** 0.5 / n

    # Half a row more on either side: the number of right rows is whole.
    below = max(0.0, float(low.mean()) - error(low) - 0.5 / n)
    above = min(1.0, float(high.mean()) + error(high) + 0.5 / n)
    stood = bool(below <= accuracy <= above)
    on_these = (
        f"{accuracy:.2f} on {n} labelled rows, where {middle.mean():.2f} ({below:.2f} … {above:.2f}) was expected"
    )
    if stood:
        said = f"The expectation stood: accuracy {on_these}."
    else:
        worse = "lower" if accuracy < below else "higher"
        said = (
            f"The expectation did not stand: accuracy {on_these}. Accuracy on the deployment is {worse} than said; fit "
            "again with these rows as validation, which then choose beta, steps and calibrator."
        )
    return Confirmation(n, accuracy, float(middle.mean()), below, above, stood, said)
