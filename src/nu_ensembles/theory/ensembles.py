"""The bound over several ensembles (Appendix B): from r runs of the algorithm to its expectation.

Theorem 1 speaks of one trained ensemble. Averaging r independent ones and adding Hoeffding terms bounds the
expected NLL over the algorithm's own randomness, given ranges for what varies.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from nu_ensembles.checks import checked
from nu_ensembles.errors import InputError
from nu_ensembles.theory.pac_bayes import Bound

VARIANCE_RANGE = 0.125
"""V-hat of eq. 2 lies between 0 and 1/8."""


@dataclass(frozen=True)
class EnsemblesBound:
    """Terms of Appendix B in nats; `total` is their sum and holds with probability 1 - `failure`.

    Attributes:
      training_nll: mean over the r ensembles.
      nll_deviation: Hoeffding's price for r being finite.
      variance: -(1 - gamma/2) times Proposition 1's value, or times the mean V-hat.
      variance_deviation: as `nll_deviation`; 0 for Proposition 1's value.
      complexity: mean over the r ensembles.
      complexity_deviation: as `nll_deviation`.
      failure: probability with which any part of the bound fails.
    """

    training_nll: float
    nll_deviation: float
    variance: float
    variance_deviation: float
    complexity: float
    complexity_deviation: float
    failure: float

    @property
    def total(self) -> float:
        """The bound on the expected NLL of an ensemble that the algorithm returns."""
        return (
            self.training_nll
            + self.nll_deviation
            + self.variance
            + self.variance_deviation
            + self.complexity
            + self.complexity_deviation
        )


@checked
def bound_over_ensembles(
    bounds: Sequence[Bound],
    *,
    nll_range: float,
    complexity_range: float,
    expected_variance: float | None = None,
    nll_failure: float = 0.01,
    complexity_failure: float = 0.01,
    variance_failure: float = 0.01,
) -> EnsemblesBound:
    """Bounds E over ensembles of their expected NLL, from r ensembles trained independently on the same Z and
    U.

    Args:
      bounds: Theorem 1 for each ensemble, with the same gammas, delta and version.
      nll_range: B, the algorithm returns ensembles whose mean training NLL is at most this.
      complexity_range: C, width of the interval in which the complexity term lies. The appendix takes its
        upper end; the width suffices, and is far smaller, because ln A is the same for all.
      expected_variance: Proposition 1's (K-1)/(2cK), justified if every member fits its random labels
        perfectly. None takes the measured V-hat instead and pays a Hoeffding term for it.
      nll_failure: probability with which the NLL's Hoeffding term may fail.
      complexity_failure: probability with which the complexity's may fail.
      variance_failure: probability with which the variance's may fail, where there is one.
    """
    if len(bounds) == 0:
        raise InputError("No bounds were given: evaluate Theorem 1 for at least one ensemble.")
    first = bounds[0]
    same = {(b.gamma, b.gamma_variance, b.delta, b.version) for b in bounds}
    if len(same) > 1:
        raise InputError("The bounds differ in gamma, delta or version: evaluate all ensembles with the same.")
    for name, failure in {
        "nll": nll_failure,
        "complexity": complexity_failure,
        "variance": variance_failure,
    }.items():
        if not 0.0 < failure < 1.0:
            raise InputError(f"{name}_failure is {failure}: give a probability between 0 and 1.")
    if nll_range <= 0.0 or complexity_range < 0.0 or max(b.training_nll for b in bounds) > nll_range:
        raise InputError("nll_range must be positive and cover every ensemble's training NLL, complexity_range ≥ 0.")

    def deviation(width: float, failure: float) -> float:
        return float(width * np.sqrt(np.log(1.0 / failure) / (2.0 * len(bounds))))

    share = 1.0 - first.gamma_variance / 2.0
    measured = expected_variance is None
    return EnsemblesBound(
        training_nll=float(np.mean([b.training_nll for b in bounds])),
        nll_deviation=deviation(nll_range, nll_failure),
        variance=float(np.mean([b.variance for b in bounds])) if measured else -share * expected_variance,
        variance_deviation=deviation(share * VARIANCE_RANGE, variance_failure) if measured else 0.0,
        complexity=float(np.mean([b.complexity for b in bounds])),
        complexity_deviation=deviation(complexity_range, complexity_failure),
        failure=first.delta + nll_failure + complexity_failure + (variance_failure if measured else 0.0),
    )
