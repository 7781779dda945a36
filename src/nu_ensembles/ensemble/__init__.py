"""The trained ensemble and its files."""

from nu_ensembles.ensemble.scoring import score
from nu_ensembles.ensemble.strangers import Strangers, strangers
from nu_ensembles.ensemble.trained import Ensemble

__all__ = ["Ensemble", "Strangers", "score", "strangers"]
