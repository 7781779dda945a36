"""Choosing beta and the length of training on validation data."""

from nu_ensembles.tuning.accompanying import Accompanied, accompanied
from nu_ensembles.tuning.calibrating import Calibrated, calibrated
from nu_ensembles.tuning.choice import SearchResult, choose
from nu_ensembles.tuning.findings import Findings, Wanted, findings
from nu_ensembles.tuning.folds import Fold, folds_of, stratified_folds
from nu_ensembles.tuning.search import SearchSettings, search
from nu_ensembles.tuning.under_shift import ResultUnderShift, search_under_shift
from nu_ensembles.tuning.verdict import as_table, nu_gain, temperature_gain, temperature_of, verdict

__all__ = [
    "Accompanied",
    "Calibrated",
    "Findings",
    "Fold",
    "ResultUnderShift",
    "SearchResult",
    "SearchSettings",
    "Wanted",
    "accompanied",
    "as_table",
    "calibrated",
    "choose",
    "findings",
    "folds_of",
    "nu_gain",
    "search",
    "search_under_shift",
    "stratified_folds",
    "temperature_gain",
    "temperature_of",
    "verdict",
]
