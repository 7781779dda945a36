"""The right-hand side of Theorem 1, term by term, as printed and with the slips of Appendix A corrected.

    E[-ln mean_i p_i(y)] ≤ mean_i NLL_Z(i) - (1 - gamma/2) V-hat + complexity

`version="as_printed"` follows the appendix's h to the letter. `version="corrected"` is what its argument
supports: the derivation is in docs/theory.md.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from nu_ensembles.checks import check_whole, checked
from nu_ensembles.errors import InputError, unknown_name
from nu_ensembles.theory.prior import log_normaliser
from nu_ensembles.theory.tails import BoundedLoss, SubGaussianLoss

VERSIONS = ("corrected", "as_printed")

GAMMA_GRID = tuple(float(gamma) for gamma in np.geomspace(0.01, 100.0, 33))
"""Fixed in advance, so that `best_bound` may choose from it for the price of ln 33."""

LARGEST_GAMMA_VARIANCE = 1.999
"""At 2 nothing of the variance is left."""


MOST_ROWS = 2**63 - 1
"""Beyond it NumPy has no roots and logarithms of whole numbers."""


@dataclass(frozen=True)
class Bound:
    """Terms of the bound in nats; `total` is their sum.

    Attributes:
      training_nll: mean over members of the NLL on the labelled set Z.
      variance: -(1 - gamma/2) V-hat, what diversity on the unlabelled set U takes off; 0 if it is not used.
      norm: squared weight norms' share of the complexity.
      precision: ln A's share, what it costs to name a network in finite precision.
      confidence: the logarithms of delta, of the grid and of sqrt(m), less ln K for the choice of a member.
      moment: psi's share, for the unbounded NLL.
      gamma: trade-off of the NLL's part.
      gamma_variance: trade-off of the variance's part.
      delta: allowed probability of failure.
      version: "corrected" or "as_printed".
    """

    training_nll: float
    variance: float
    norm: float
    precision: float
    confidence: float
    moment: float
    gamma: float
    gamma_variance: float
    delta: float
    version: str

    @property
    def complexity(self) -> float:
        """The mean of h over members, which is all but training loss and variance."""
        return self.norm + self.precision + self.confidence + self.moment

    @property
    def total(self) -> float:
        """The bound on the expected NLL of the ensemble."""
        return self.training_nll + self.variance + self.complexity

    @checked
    def vacuous(self, n_classes: int) -> bool:
        """Whether the bound promises no more than guessing uniformly, whose NLL is ln c.

        Args:
          n_classes: how many classes (c).
        """
        return self.total >= math.log(check_whole(n_classes, "n_classes"))


@checked
def bound(
    *,
    member_nll: ArrayLike,
    variance: float,
    squared_norms: ArrayLike,
    n_parameters: int,
    n_labeled: int,
    n_unlabeled: int,
    loss: BoundedLoss | SubGaussianLoss,
    gamma: float = 1.0,
    gamma_variance: float | None = None,
    delta: float = 0.05,
    precision: str = "float32",
    n_grid: int = 1,
    use_variance: bool = True,
    version: str = "corrected",
) -> Bound:
    """Right-hand side of Theorem 1, which holds with probability 1 - delta over Z and U.

    Args:
      member_nll: NLL of each member on Z, `[K]`.
      variance: V-hat on U [eq. 2], or its expectation under Proposition 1.
      squared_norms: squared norm of the weights of each member, `[K]`.
      n_parameters: M, weights of one member.
      n_labeled: n, size of Z.
      n_unlabeled: m, size of U.
      loss: the assumption about the NLL that bounds psi.
      gamma: trade-off of the NLL's part, positive; that part holds for this value only, or for any on a grid
        of `n_grid` values fixed in advance.
      gamma_variance: trade-off of the variance's part, in (0, 2); that part holds for all values at once.
        None takes `gamma`, as printed.
      delta: allowed probability of failure.
      precision: format of the weights, for ln A.
      n_grid: number of values from which gamma was picked after seeing the data (corrected version only).
      use_variance: False uses V ≥ 0 instead of V-hat, which costs no complexity (corrected version only).
      version: "corrected" or "as_printed".
    """
    if version not in VERSIONS:
        raise unknown_name("version", version, VERSIONS)
    try:
        nlls, norms = (np.atleast_1d(np.asarray(each, float)) for each in (member_nll, squared_norms))
    except (TypeError, ValueError):
        raise InputError("member_nll and squared_norms must be numbers, one of each per member.") from None
    if gamma_variance is None:
        gamma_variance = gamma if use_variance else 1.0
    if version == "as_printed" and (gamma_variance != gamma or n_grid != 1 or not use_variance):
        raise InputError("The printed theorem has one gamma, no grid and a variance: leave these options alone.")
    _check(nlls, norms, variance, n_labeled, n_unlabeled, (gamma, gamma_variance), delta, n_grid)
    K, n, m = len(nlls), n_labeled, n_unlabeled
    if version == "corrected":
        kl_weight = psi_weight = 1.0 / (gamma * n)
        confidence = np.log(2.0 * n_grid / delta) / (gamma * n)
        if use_variance:
            # V = ¼ E D with D = (p - p')² in [0, 1], on pairs of members, whose KL is 2 KL; delta/2 for each part.
            kl_weight += 2.0 / (4.0 * gamma_variance * m)
            confidence += np.log(4.0 * np.sqrt(m) / delta) / (4.0 * gamma_variance * m)
        confidence -= np.log(K) * kl_weight
    else:
        kl_weight = 1.0 / (gamma * n) + 1.0 / (gamma * m)
        confidence = K * np.log(1.0 / delta) / (gamma * n) + K * np.log(2.0 * np.sqrt(m) / delta) / (gamma * m)
        psi_weight = K / (gamma * n)
    return Bound(
        training_nll=float(nlls.mean()),
        variance=-(1.0 - gamma_variance / 2.0) * variance if use_variance else 0.0,
        norm=float(norms.mean()) * kl_weight,
        precision=log_normaliser(n_parameters, precision) * kl_weight,
        confidence=float(confidence),
        moment=loss.psi(gamma, n) * psi_weight,
        gamma=gamma,
        gamma_variance=gamma_variance,
        delta=delta,
        version=version,
    )


@checked
def best_bound(grid: Sequence[float] = GAMMA_GRID, **arguments: Any) -> Bound:
    """The smallest corrected bound over a grid of gammas, paid for by a union bound over the grid.

    The variance's part holds for all its gammas at once, so that one is optimised freely; where V-hat brings less
    than its complexity costs it is left out.

    Args:
      grid: candidate gammas of the NLL's part, positive, fixed before seeing the data.
      **arguments: of `bound`, less gamma, gamma_variance, n_grid, use_variance and version.
    """
    if len(grid) == 0:
        raise InputError("The grid of gammas is empty: give at least one positive value.")

    def at(gamma: float, gamma_variance: float, use_variance: bool = True) -> Bound:
        free = {"gamma": gamma, "gamma_variance": gamma_variance, "use_variance": use_variance}
        return bound(**arguments, **free, n_grid=len(grid))

    best = min((at(gamma, 1.0) for gamma in grid), key=lambda candidate: candidate.total)
    # In g = gamma_variance the total is a/g + g·V/2 and a constant; a is what halving g adds.
    cost = at(best.gamma, 0.5).complexity - best.complexity
    variance = float(arguments["variance"])
    optimum = float(np.sqrt(2.0 * cost / variance)) if variance > 0.0 else LARGEST_GAMMA_VARIANCE
    with_variance = at(best.gamma, min(optimum, LARGEST_GAMMA_VARIANCE))
    without = at(best.gamma, 1.0, use_variance=False)
    return min(with_variance, without, key=lambda candidate: candidate.total)


def _check(
    nlls: np.ndarray,
    norms: np.ndarray,
    variance: float,
    n_labeled: int,
    n_unlabeled: int,
    gammas: tuple[float, float],
    delta: float,
    n_grid: int,
) -> None:
    if nlls.shape != norms.shape or nlls.ndim != 1 or len(nlls) == 0:
        raise InputError(
            f"member_nll has shape {nlls.shape} and squared_norms {norms.shape}: give one number of each per member."
        )
    if not (np.isfinite(nlls).all() and (nlls >= 0).all() and np.isfinite(norms).all() and (norms >= 0).all()):
        raise InputError("member_nll and squared_norms must be finite and not negative.")
    if not 0.0 <= variance <= 0.125:
        raise InputError(f"variance is {variance}: V-hat of eq. 2 lies between 0 and 1/8.")
    if n_labeled < 1 or n_unlabeled < 8:
        raise InputError(f"n_labeled is {n_labeled} and n_unlabeled {n_unlabeled}: the theorem needs at least 1 and 8.")
    check_whole(n_labeled, "n_labeled", most=MOST_ROWS)
    check_whole(n_unlabeled, "n_unlabeled", most=MOST_ROWS)
    gamma, gamma_variance = gammas
    if not 0.0 < gamma < float("inf") or not 0.0 < gamma_variance < 2.0:
        raise InputError(
            f"gamma is {gamma} and gamma_variance {gamma_variance}: give positive values, gamma_variance below 2."
        )
    if not 0.0 < delta < 1.0 or n_grid < 1:
        raise InputError(f"delta is {delta} and n_grid {n_grid}: give 0 < delta < 1 and at least one grid value.")
