"""Choosing beta and the length of training on validation data."""

from nu_ensembles.tuning.accompanying import Accompanied, accompanied, check_companion
from nu_ensembles.tuning.calibrating import Calibrated, calibrated, check_calibration
from nu_ensembles.tuning.choice import SearchResult, choose
from nu_ensembles.tuning.folds import Fold, folds_of, stratified_folds
from nu_ensembles.tuning.search import SearchSettings, search
from nu_ensembles.tuning.under_shift import ResultUnderShift, says_nothing_of_the_deployment, search_under_shift
from nu_ensembles.tuning.verdict import as_table, findings, nu_gain, temperature_gain, temperature_of, verdict

__all__ = [
    "Accompanied",
    "Calibrated",
    "Fold",
    "ResultUnderShift",
    "SearchResult",
    "SearchSettings",
    "accompanied",
    "as_table",
    "calibrated",
    "check_calibration",
    "check_companion",
    "choose",
    "findings",
    "folds_of",
    "nu_gain",
    "says_nothing_of_the_deployment",
    "search",
    "search_under_shift",
    "stratified_folds",
    "temperature_gain",
    "temperature_of",
    "verdict",
]
