"""Searches of hyper-parameters, on Optuna: trials of one shape side by side, the same search whoever runs it."""

from nu_ensembles.searches.outcome import SearchOutcome
from nu_ensembles.searches.space import Parameter, Space
from nu_ensembles.searches.trial import SearchTrial
from nu_ensembles.searches.tune import tune

__all__ = ["Parameter", "SearchOutcome", "SearchTrial", "Space", "tune"]
