"""The trained ensemble and its files."""

from nu_ensembles.ensemble.scoring import score
from nu_ensembles.ensemble.trained import Ensemble

__all__ = ["Ensemble", "score"]
