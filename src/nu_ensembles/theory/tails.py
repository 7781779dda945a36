"""What must be assumed about the NLL for Theorem 1 to be a number: the moment term psi (Appendix A).

psi(gamma, n) = ln E_prior E_data exp(gamma n (L - L-hat)) cannot be computed from data; it is bounded under
an assumption that the user states and answers for.
"""

from __future__ import annotations

from dataclasses import dataclass

from nu_ensembles.checks import check_positive


@dataclass(frozen=True)
class BoundedLoss:
    """The NLL lies in an interval of this width for every network of the prior.

    Not true of a softmax, whose NLL is unbounded; true after mixing with the uniform distribution:
    (1-e) p + e/c has an NLL of at most ln(c/e). Hoeffding's lemma: psi ≤ gamma² n width² / 8.

    Attributes:
      width: of the interval, in nats.
    """

    width: float

    def __post_init__(self) -> None:
        check_positive(self.width, "width")

    def psi(self, gamma: float, n_labeled: int) -> float:
        """Upper bound of the moment term.

        Args:
          gamma: trade-off of the NLL's part.
          n_labeled: n, size of Z.
        """
        return gamma**2 * n_labeled * self.width**2 / 8.0


@dataclass(frozen=True)
class SubGaussianLoss:
    """The NLL is sub-Gaussian of this scale under the prior and the data.

    E exp(t (L - loss)) ≤ exp(t² scale² / 2) for all t, so psi ≤ gamma² n scale² / 2.

    Attributes:
      scale: in nats.
    """

    scale: float

    def __post_init__(self) -> None:
        check_positive(self.scale, "scale")

    def psi(self, gamma: float, n_labeled: int) -> float:
        """Upper bound of the moment term.

        Args:
          gamma: trade-off of the NLL's part.
          n_labeled: n, size of Z.
        """
        return gamma**2 * n_labeled * self.scale**2 / 2.0
