"""The paper's theory as code: variance (eq. 2, Proposition 1) and the PAC-Bayes bound (Theorem 1, Appendix A-B)."""

from nu_ensembles.theory.ensembles import EnsemblesBound, bound_over_ensembles
from nu_ensembles.theory.pac_bayes import Bound, best_bound, bound
from nu_ensembles.theory.prior import log_normaliser
from nu_ensembles.theory.tails import BoundedLoss, SubGaussianLoss
from nu_ensembles.theory.variance import empirical_variance, expected_variance, simulated_variance

__all__ = [
    "Bound",
    "BoundedLoss",
    "EnsemblesBound",
    "SubGaussianLoss",
    "best_bound",
    "bound",
    "bound_over_ensembles",
    "empirical_variance",
    "expected_variance",
    "log_normaliser",
    "simulated_variance",
]
